// SPDX-License-Identifier: Apache-2.0
/* Checks of the kernel: its version, its build, what it was told to forbid. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/check/check.h"

#define FLOOR CHECK_VERSION(5, 10, 0)

static int parse_version(const char *s, uint32_t *ret)
{
	unsigned major, minor, patch = 0;

	if (!s || sscanf(s, "%3u.%3u.%3u", &major, &minor, &patch) < 2 || major > 255 || minor > 255)
		return -EINVAL;
	*ret = CHECK_VERSION(major, minor, patch > 255 ? 255 : patch);
	return 0;
}

int check_kernel_version(const struct check_view *view, uint32_t *ret)
{
	char release[65], version[65], signature[128];
	const char *debian;
	int r = view->uname(view->ctx, release, version);

	if (r < 0)
		return r;
	/* Debian's release is that of the ABI (6.1.0-18), Ubuntu's too (6.2.0-39): the patch level stands
	 * elsewhere. */
	debian = strstr(version, "Debian ");
	if (debian && parse_version(debian + strlen("Debian "), ret) == 0)
		return 0;
	if (view->read_file(view->ctx, "/proc/version_signature", signature, sizeof signature) > 0 &&
	    parse_version(strrchr(signature, ' ') ? strrchr(signature, ' ') + 1 : NULL, ret) == 0)
		return 0;
	return parse_version(release, ret);
}

static void format_version(uint32_t v, char out[16])
{
	snprintf(out, 16, "%u.%u.%u", v >> 16 & 0xff, v >> 8 & 0xff, v & 0xff);
}

void check_kernel(const struct check_view *view, struct check_report *report)
{
	char detail[80], text[16];
	uint32_t version;

	if (check_kernel_version(view, &version) < 0) {
		check_add(report, CHECK_DEGRADED, "kernel", "the version cannot be told",
			  "5.10 or newer is needed");
		return;
	}
	format_version(version, text);
	if (version < FLOOR) {
		snprintf(detail, sizeof detail, "Linux %s is older than 5.10", text);
		check_add(report, CHECK_FAILS, "kernel", detail, "boot Linux 5.10 or newer");
		return;
	}
	snprintf(detail, sizeof detail, "Linux %s (5.10 or newer is needed)", text);
	check_add(report, CHECK_OK, "kernel", detail, "");
}

/*
 * HARDENED_USERCOPY walks vmalloc areas under a lock that the interrupted code may hold; bpf_probe_read_user
 * from a perf event then waits for it forever. Fixed in 6.1.36, 6.3.10 and 6.4.
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

int check_kernel_supported(char **ret_why)
{
	struct check_report report = {0};

	check_kernel(&check_view_real, &report);
	check_deadlock(&check_view_real, &report);
	for (size_t i = 0; i < report.n; i++) {
		if (report.results[i].status != CHECK_FAILS)
			continue;
		if (asprintf(ret_why, "%s; %s", report.results[i].detail, report.results[i].fix) < 0) {
			*ret_why = NULL;
			return -ENOMEM;
		}
		return -EOPNOTSUPP;
	}
	return 0;
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
	snprintf(detail, sizeof detail, "%s: %s; the program cannot be fitted to this kernel", path,
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
		check_add(report, CHECK_OK, "lockdown", "none to be seen", "");
	} else if (strstr(text, "[confidentiality]")) {
		check_add(report, CHECK_FAILS, "lockdown",
			  "confidentiality: the kernel refuses BPF programs that read memory",
			  "boot with lockdown=integrity or without lockdown");
	} else {
		check_add(report, CHECK_OK, "lockdown", strstr(text, "[integrity]") ? "integrity" : "none",
			  "");
	}
}
