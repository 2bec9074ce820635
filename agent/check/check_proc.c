// SPDX-License-Identifier: Apache-2.0
/* Checks of what /proc shows: kernel symbols, processes of others. */
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/check/check.h"
#include "agent/config/config.h"

static bool all_addresses_zero(const char *kallsyms)
{
	for (const char *line = kallsyms; *line; line++) {
		size_t digits = strspn(line, "0123456789abcdef");

		if (digits && strspn(line, "0") != digits && line[digits] == ' ')
			return false;
		line += strcspn(line, "\n");
		if (!*line)
			break;
	}
	return true;
}

static bool kptr_restricted(const struct check_view *view)
{
	char text[16];

	return view->read_file(view->ctx, "/proc/sys/kernel/kptr_restrict", text, sizeof text) > 0 &&
	       atoi(text) >= 2;
}

/* The timer's tick is found by the kernel's symbols: without perf events it does not go without. */
void check_kallsyms(const struct check_view *view, const struct config *config, struct check_report *report)
{
	char text[4096], detail[240];
	ssize_t n = view->read_file(view->ctx, "/proc/kallsyms", text, sizeof text);
	bool tick = check_takes_tick(view, config);
	const char *what = n > 0    ? "all addresses are zero"
			   : n == 0 ? "/proc/kallsyms is empty"
				    : strerror((int)-n);
	const char *fix =
		n == -ENOENT ? "boot a kernel built with CONFIG_KALLSYMS=y"
		: n <= 0     ? "take away what hides /proc/kallsyms: a mount over it (masked paths of the "
			       "container runtime), or a rule of the security module"
		: kptr_restricted(view) ? "sysctl -w kernel.kptr_restrict=1 on the node"
					: "add SYSLOG to the container's capabilities";

	if (n > 0 && !all_addresses_zero(text)) {
		check_add(report, CHECK_OK, "kallsyms", "kernel functions can be named", "");
		return;
	}
	snprintf(detail, sizeof detail, "%s%s: %s", n < 0 ? "/proc/kallsyms: " : "", what,
		 tick ? "the timer's tick cannot be found, which is all that is left to sample by"
		      : "kernel functions have no names");
	if (tick && n != -ENOENT)
		check_add_denied(report, "kallsyms", detail, fix);
	else
		check_add(report, tick ? CHECK_FAILS : CHECK_DEGRADED, "kallsyms", detail, fix);
}

/* The line of /proc/self/mounts that is about /proc has the option, as a number or a word. */
static bool find_hidepid(const struct check_view *view, char ret[32])
{
	char text[32768];

	if (view->read_file(view->ctx, "/proc/self/mounts", text, sizeof text) <= 0)
		return false;
	for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
		const char *option = strstr(line, " /proc proc ") ? strstr(line, "hidepid=") : NULL;

		if (option) {
			snprintf(ret, 32, "%.*s", (int)strcspn(option, ", "), option);
			return true;
		}
	}
	return false;
}

/* Whether processes of others are there at all, before what they are asked. */
void check_proc(const struct check_view *view, struct check_report *report)
{
	char status[4096], option[32], detail[200];
	ssize_t own = view->read_file(view->ctx, "/proc/self/status", status, sizeof status);
	ssize_t first = view->read_file(view->ctx, "/proc/1/status", status, sizeof status);

	if (own <= 0) {
		snprintf(detail, sizeof detail, "/proc/self/status: %s: no process can be seen",
			 own < 0 ? strerror((int)-own) : "empty");
		check_add(report, CHECK_FAILS, "proc", detail, "mount -t proc proc /proc");
	} else if (first > 0) {
		check_add(report, CHECK_OK, "proc", "shows all processes", "");
	} else if (find_hidepid(view, option)) {
		snprintf(detail, sizeof detail,
			 "mounted with %s: processes of other users are hidden, their stacks end early and "
			 "have "
			 "neither names nor container.id",
			 option);
		check_add(report, CHECK_DEGRADED, "proc", detail,
			  check_has(view, CAP_SYS_PTRACE)
				  ? "mount -o remount,hidepid=0 /proc"
				  : "add SYS_PTRACE to the container's capabilities, or "
				    "mount -o remount,hidepid=0 /proc");
	} else {
		snprintf(detail, sizeof detail,
			 "/proc/1/status: %s: processes of others are hidden, their stacks end early",
			 first < 0 ? strerror((int)-first) : "empty");
		check_add(report, CHECK_DEGRADED, "proc", detail,
			  "mount the whole of /proc, see the log of the security module (SELinux, AppArmor)");
	}
}
