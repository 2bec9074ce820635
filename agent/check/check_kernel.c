// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/check/check_facts.h"
#include "agent/check/checks.h"
#include "version.h"

#define FLOOR CHECK_VERSION(5, 10, 0)

static void format_version(uint32_t v, char out[16])
{
	snprintf(out, 16, "%u.%u.%u", v >> 16 & 0xff, v >> 8 & 0xff, v & 0xff);
}

void check_kernel(const struct check_view *view, struct check_report *report)
{
	char detail[80], text[16];
	uint32_t version;

	if (check_kernel_version(view, &version) < 0) {
		check_add(report, CHECK_DEGRADED, "kernel", "the version is unknown",
			  "5.10 or newer is needed");
		return;
	}
	format_version(version, text);
	if (version < FLOOR) {
		snprintf(detail, sizeof detail, "Linux %s is older than 5.10", text);
		check_add(report, CHECK_FAILS, "kernel", detail, "boot Linux 5.10 or newer");
		return;
	}
	snprintf(detail, sizeof detail, "Linux %s, " PROFLET_MACHINE " (5.10 or newer is needed)", text);
	check_add(report, CHECK_OK, "kernel", detail, "");
}

/*
 * HARDENED_USERCOPY walks vmalloc areas under a lock that the interrupted code may hold, and
 * bpf_probe_read_user in a perf event's program then waits for that lock forever. Fixed in 6.1.36, 6.3.10 and
 * 6.4.
 */
static bool in_deadlock_range(uint32_t v)
{
	return (v >= CHECK_VERSION(5, 19, 0) && v <= CHECK_VERSION(6, 1, 35)) ||
	       (v >= CHECK_VERSION(6, 2, 0) && v <= CHECK_VERSION(6, 3, 9));
}

static bool usercopy_switched_off(const struct check_view *view)
{
	char text[2048];

	return view->read_file(view->ctx, "/proc/cmdline", text, sizeof text) > 0 &&
	       strstr(text, "hardened_usercopy=off");
}

void check_deadlock(const struct check_view *view, struct check_report *report)
{
	char release[65], version[65], text[16], detail[200];
	uint32_t v;
	int hardened;

	if (check_kernel_version(view, &v) < 0 || view->uname(view->ctx, release, version) < 0 ||
	    !in_deadlock_range(v)) {
		check_add(report, CHECK_OK, "usercopy", "not a kernel with the HARDENED_USERCOPY deadlock",
			  "");
		return;
	}
	format_version(v, text);
	hardened = view->kernel_option(view->ctx, release, "CONFIG_HARDENED_USERCOPY");
	if (hardened == 0 || usercopy_switched_off(view)) {
		check_add(report, CHECK_OK, "usercopy", "this kernel runs without HARDENED_USERCOPY", "");
		return;
	}
	snprintf(detail, sizeof detail,
		 "Linux %s %s HARDENED_USERCOPY and can deadlock when a perf event's program reads user "
		 "memory",
		 text, hardened == 1 ? "has" : "probably has");
	check_add(report, CHECK_FAILS, "usercopy", detail,
		  "update to 6.1.36, 6.3.10, 6.4 or newer, or boot with hardened_usercopy=off");
}

void check_btf(const struct check_view *view, struct check_report *report)
{
	static const char path[] = "/sys/kernel/btf/vmlinux";
	char detail[160];
	int r = view->open_file(view->ctx, path);

	if (r >= 0) {
		check_add(report, CHECK_OK, "btf", "the kernel describes its types", "");
		return;
	}
	snprintf(detail, sizeof detail, "%s: %s; the BPF program cannot be adapted to this kernel", path,
		 strerror(-r));
	if (r == -ENOENT)
		check_add(report, CHECK_FAILS, "btf", detail,
			  "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y, or mount /sys read-only in the "
			  "container");
	else
		check_add_denied(report, "btf", detail, "let the agent read /sys/kernel/btf");
}

void check_lockdown(const struct check_view *view, struct check_report *report)
{
	char text[80];
	ssize_t n = view->read_file(view->ctx, "/sys/kernel/security/lockdown", text, sizeof text);

	if (n < 0) {
		check_add(report, CHECK_OK, "lockdown", "not visible", "");
	} else if (strstr(text, "[confidentiality]")) {
		check_add(report, CHECK_FAILS, "lockdown",
			  "confidentiality: the kernel refuses BPF programs that read memory",
			  "boot with lockdown=integrity or without lockdown");
	} else {
		check_add(report, CHECK_OK, "lockdown", strstr(text, "[integrity]") ? "integrity" : "none",
			  "");
	}
}
