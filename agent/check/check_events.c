// SPDX-License-Identifier: Apache-2.0
/* These checks try: create a map, open an event. A failure is then explained by what the system tells about
 * itself. */
#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/resources.h"
#include "agent/check/check_facts.h"
#include "agent/check/checks.h"
#include "agent/config/config.h"

/* On kernels before 5.11 maps count against RLIMIT_MEMLOCK. */
static bool limited_by_memlock(const struct check_view *view)
{
	uint64_t bytes;
	uint32_t version;

	return check_kernel_version(view, &version) == 0 && version < CHECK_VERSION(5, 11, 0) &&
	       view->memlock(view->ctx, &bytes) == 0 && bytes != UINT64_MAX &&
	       !check_has(view, CAP_SYS_RESOURCE);
}

void check_bpf(const struct check_view *view, struct check_report *report)
{
	char detail[120];
	int r = view->bpf_map_create(view->ctx);

	snprintf(detail, sizeof detail, "the bpf system call fails: %s", strerror(-r));
	if (r >= 0)
		check_add(report, CHECK_OK, "bpf", "a map can be created", "");
	else if (r == -ENOSYS)
		check_add(
			report, CHECK_FAILS, "bpf", detail,
			"boot a kernel built with CONFIG_BPF_SYSCALL=y, or allow bpf in the seccomp profile");
	else if (r != -EPERM && r != -EACCES)
		check_add(report, CHECK_FAILS, "bpf", detail, "");
	else if (!check_has(view, CAP_BPF))
		check_add_denied(report, "bpf", detail,
				 "add BPF to the container's capabilities, or run as root");
	else if (limited_by_memlock(view))
		check_add_denied(
			report, "bpf", detail,
			"raise the limit on locked memory (ulimit -l unlimited) or add SYS_RESOURCE");
	else if (check_seccomp_active(view))
		check_add_denied(report, "bpf", detail,
				 "a seccomp filter is active: use the profile in deploy/ or seccompProfile: "
				 "{type: Unconfined}");
	else
		check_add_denied(report, "bpf", detail,
				 "a security module (SELinux, AppArmor) or the kernel's lockdown refuses it: "
				 "see its log");
}

/*
 * Sampling at the timer tick needs no perf event. It needs BPF and kallsyms, which have lines of their own.
 */
static void add_denied(const struct config *config, struct check_report *report, const char *detail,
		       const char *fix)
{
	char text[320];

	if (config->sampling.event == CONFIG_EVENT_CYCLES ||
	    config->sampling.event == CONFIG_EVENT_CPU_CLOCK) {
		check_add_denied(report, "perf_event_open", detail, fix);
		return;
	}
	snprintf(text, sizeof text, "%s: the timer tick is used instead", detail);
	check_add(report, CHECK_DEGRADED, "perf_event_open", text, fix);
}

/* perf_event_open was denied although the capability is there. */
static void explain_denied(const struct check_view *view, const struct config *config,
			   struct check_report *report, const char *error)
{
	char detail[200];
	int level = 0;

	if (check_paranoid_level(view, &level) == 0 && level > 2) {
		snprintf(detail, sizeof detail,
			 "kernel.perf_event_paranoid is %d: %s refuses every event without CAP_SYS_ADMIN, "
			 "even with CAP_PERFMON",
			 level,
			 level == 3 ? "Debian's patch of the kernel (3 or higher)"
				    : "Ubuntu's patch of the kernel (4)");
		add_denied(config, report, detail,
			   "sysctl -w kernel.perf_event_paranoid=2 on the node, or add SYS_ADMIN to the "
			   "capabilities");
		return;
	}
	snprintf(detail, sizeof detail, "denied: %s", error);
	if (check_seccomp_active(view))
		add_denied(config, report, detail,
			   "a seccomp filter is active: use the profile in deploy/ or seccompProfile: {type: "
			   "Unconfined}");
	else
		add_denied(
			config, report, detail,
			"a security module (SELinux, AppArmor) or the kernel's lockdown refuses it: see its "
			"log");
}

void check_perf(const struct check_view *view, const struct config *config, struct check_report *report)
{
	char detail[160];
	int r = view->perf_open(view->ctx, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK);
	int level = 0;

	if (r >= 0) {
		if (check_paranoid_level(view, &level) < 0)
			snprintf(detail, sizeof detail, "events of the whole host can be opened");
		else
			snprintf(detail, sizeof detail,
				 "events of the whole host can be opened (perf_event_paranoid %d)", level);
		check_add(report, CHECK_OK, "perf_event_open", detail, "");
	} else if (r == -ENOSYS) {
		check_add(report, CHECK_FAILS, "perf_event_open", "the system call does not exist",
			  "boot a kernel built with CONFIG_PERF_EVENTS=y, or allow perf_event_open in the "
			  "seccomp profile");
	} else if (r != -EPERM && r != -EACCES) {
		snprintf(detail, sizeof detail, "a cpu-clock event cannot be opened: %s", strerror(-r));
		check_add(report, CHECK_FAILS, "perf_event_open", detail, "");
	} else if (!check_has(view, CAP_PERFMON)) {
		snprintf(detail, sizeof detail, "denied without CAP_PERFMON: %s", strerror(-r));
		check_add_denied(report, "perf_event_open", detail,
				 "add PERFMON to the container's capabilities, or run as root");
	} else {
		explain_denied(view, config, report, strerror(-r));
	}
}

void check_pmu(const struct check_view *view, const struct config *config, struct check_report *report)
{
	bool wanted = config->sampling.event == CONFIG_EVENT_CYCLES;
	int r = view->perf_open(view->ctx, PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES);
	char detail[160];

	if (r >= 0) {
		check_add(report, CHECK_OK, "sampling event", "hardware cycles", "");
		return;
	}
	if (r == -EPERM || r == -EACCES) /* perf_event_open has its own line */
		return;
	snprintf(detail, sizeof detail, "no hardware cycles here (%s, usual in a virtual machine)%s",
		 strerror(-r), wanted ? "" : ": cpu-clock is used");
	if (wanted)
		check_add(report, CHECK_FAILS, "sampling event", detail,
			  "set sampling.event to auto or cpu-clock");
	else
		check_add(report, CHECK_OK, "sampling event", detail, "");
}

#define FILES_ENOUGH 4096u /* a large host: each binary stays open while it is mapped */

void check_open_files(const struct check_view *view, struct check_report *report)
{
	static const char fix[] =
		"raise the hard limit: ulimit -Hn 65536, LimitNOFILE= of a systemd unit, or the container "
		"runtime's";
	uint64_t max;
	char detail[160];

	if (view->open_files(view->ctx, &max) < 0)
		return;
	if (max >= FILES_ENOUGH) {
		check_add(report, CHECK_OK, "open files", "the limit is high enough", "");
		return;
	}
	snprintf(detail, sizeof detail, "at most %" PRIu64 ": %s", max,
		 max < resources_files_needed()
			 ? "the BPF program, its maps and the events of each CPU need more"
			 : "further binaries cannot be read: their stacks end early and have no names");
	check_add(report, max < resources_files_needed() ? CHECK_FAILS : CHECK_DEGRADED, "open files", detail,
		  fix);
}

void check_memlock(const struct check_view *view, struct check_report *report)
{
	uint64_t bytes;
	char detail[120];

	if (view->memlock(view->ctx, &bytes) < 0)
		return;
	if (limited_by_memlock(view)) {
		snprintf(detail, sizeof detail, "BPF maps may use only %" PRIu64 " KiB before Linux 5.11",
			 bytes / 1024);
		check_add_denied(report, "memlock", detail,
				 "ulimit -l unlimited, or add SYS_RESOURCE to the capabilities");
		return;
	}
	if (bytes == UINT64_MAX)
		check_add(report, CHECK_OK, "memlock", "no limit", "");
	else
		check_add(report, CHECK_OK, "memlock", "the limit does not affect BPF maps", "");
}
