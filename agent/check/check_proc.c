// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/check/check_facts.h"
#include "agent/check/checks.h"
#include "agent/config/config.h"

#define INITIAL_PID_NAMESPACE 4026531836u /* PROC_PID_INIT_INO of include/linux/proc_ns.h */

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

/* Without perf events the agent samples at the timer tick, which it finds by the kernel's symbols. */
void check_kallsyms(const struct check_view *view, const struct config *config, struct check_report *report)
{
	char text[4096], detail[240];
	ssize_t n = view->read_file(view->ctx, "/proc/kallsyms", text, sizeof text);
	bool tick = check_takes_tick(view, config);
	const char *what = n > 0    ? "all addresses are zero"
			   : n == 0 ? "/proc/kallsyms is empty"
				    : strerror((int)-n);
	const char *fix = n == -ENOENT ? "boot a kernel built with CONFIG_KALLSYMS=y"
			  : n <= 0 ? "remove what hides /proc/kallsyms: a mount over it (masked paths of the "
				     "container runtime), or a rule of the security module"
			  : kptr_restricted(view) ? "sysctl -w kernel.kptr_restrict=1 on the node"
						  : "add SYSLOG to the container's capabilities";

	if (n > 0 && !all_addresses_zero(text)) {
		check_add(report, CHECK_OK, "kallsyms", "kernel functions can be named", "");
		return;
	}
	snprintf(detail, sizeof detail, "%s%s: %s", n < 0 ? "/proc/kallsyms: " : "", what,
		 tick ? "the timer tick, the only event left to sample, cannot be found"
		      : "kernel functions have no names");
	if (tick && n != -ENOENT)
		check_add_denied(report, "kallsyms", detail, fix);
	else
		check_add(report, tick ? CHECK_FAILS : CHECK_DEGRADED, "kallsyms", detail, fix);
}

/* Finds the option in the line of /proc/self/mounts for /proc; its value is a number or a word. */
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

/* Whether processes of other users are visible at all. */
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
			 "/proc/1/status: %s: processes of other users are hidden: their stacks end early",
			 first < 0 ? strerror((int)-first) : "empty");
		check_add(report, CHECK_DEGRADED, "proc", detail,
			  "mount the whole of /proc, see the log of the security module (SELinux, AppArmor)");
	}
}

/* False also when there are more mounts than were read. */
static bool no_cgroup_mounted(const struct check_view *view)
{
	char text[65536];
	ssize_t n = view->read_file(view->ctx, "/proc/self/mountinfo", text, sizeof text);

	return n > 0 && (size_t)n < sizeof text - 1 && !strstr(text, " - cgroup");
}

/* Lines are "N:controllers:PATH" (v1) and "0::PATH" (v2). */
void check_cgroup(const struct check_view *view, struct check_report *report)
{
	char text[4096], detail[200];
	bool v1 = false, v2 = false, relative;
	ssize_t n = view->read_file(view->ctx, "/proc/1/cgroup", text, sizeof text);

	if (n <= 0) {
		snprintf(detail, sizeof detail, "/proc/1/cgroup: %s; samples get no container.id",
			 n < 0 ? strerror((int)-n) : "empty");
		check_add(report, CHECK_DEGRADED, "cgroup", detail,
			  "make process 1 readable in /proc, see the lines proc and CAP_SYS_PTRACE");
		return;
	}
	relative = strstr(text, ":/..") != NULL;
	for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
		if (strncmp(line, "0::", 3) == 0)
			v2 = true;
		else if (*line)
			v1 = true;
	}
	snprintf(detail, sizeof detail, "%s%s",
		 v1 && v2 ? "hybrid v1 and v2"
		 : v2	  ? "v2"
			  : "v1",
		 relative ? ", paths are relative to the agent's own group but still contain container ids"
			  : "");
	if (no_cgroup_mounted(view)) {
		snprintf(detail, sizeof detail,
			 "not mounted here: memory.total does not follow the control group's limit, and the "
			 "kernel may kill the agent");
		check_add(report, CHECK_DEGRADED, "cgroup", detail,
			  "mount it at /sys/fs/cgroup, read-only is enough, or set memory.total");
		return;
	}
	check_add(report, CHECK_OK, "cgroup", detail, "");
}

/*
 * /proc/self/status has one pid for each namespace from that of the mounted /proc down to the process's own.
 */
static unsigned count_pids(const char *status)
{
	const char *line = strstr(status, "\nNSpid:");
	unsigned n = 0;

	if (!line)
		return 1;
	line += strlen("\nNSpid:");
	while (*(line += strspn(line, " \t")) >= '0' && *line <= '9') {
		line += strspn(line, "0123456789");
		n++;
	}
	return n;
}

static unsigned long namespace_inode(const struct check_view *view, const char *path)
{
	char link[64], *digits;
	ssize_t n = view->read_link(view->ctx, path, link, sizeof link);

	digits = n > 0 ? strchr(link, '[') : NULL;
	return digits ? strtoul(digits + 1, NULL, 10) : 0;
}

void check_pid_namespace(const struct check_view *view, struct check_report *report)
{
	static const char name[] = "pid namespace";
	char status[4096];
	unsigned long own = namespace_inode(view, "/proc/self/ns/pid");

	if (view->read_file(view->ctx, "/proc/self/status", status, sizeof status) <= 0)
		return; /* check_proc reports it */
	if (count_pids(status) != 1)
		check_add(report, CHECK_FAILS, name,
			  "/proc belongs to another PID namespace than the agent: its PIDs are not those of "
			  "the samples",
			  "set hostPID: true and do not mount the host's /proc elsewhere");
	else if (view->getpid(view->ctx) == 1)
		check_add(report, CHECK_DEGRADED, name, "only the agent's own container is seen",
			  "set hostPID: true in the pod (docker run --pid=host)");
	else if (own == INITIAL_PID_NAMESPACE)
		check_add(report, CHECK_OK, name, "that of the host", "");
	else
		check_add(
			report, CHECK_OK, name,
			"a nested one (a node in a container, or hostPID is missing): its processes are seen",
			"");
}

/* The first mapping that has a file: "START-END PERMS OFFSET DEV INODE PATH". */
static int first_file_mapping(const struct check_view *view, const char *pid, char *range, size_t size)
{
	char path[64], maps[8192];
	unsigned long long start, end, inode;
	ssize_t n;

	snprintf(path, sizeof path, "/proc/%s/maps", pid);
	n = view->read_file(view->ctx, path, maps, sizeof maps);
	if (n <= 0)
		return n == -ENOENT ? -ESRCH : n < 0 ? (int)n : -EACCES;
	for (char *rest = maps, *line; (line = strsep(&rest, "\n"));) {
		if (sscanf(line, "%llx-%llx %*s %*s %*s %llu", &start, &end, &inode) == 3 && inode) {
			snprintf(range, size, "/proc/%s/map_files/%llx-%llx", pid, start, end);
			return 0;
		}
	}
	return -ENOENT;
}

static void explain_binaries(const struct check_view *view, struct check_report *report, int r)
{
	bool restore = check_has(view, CAP_CHECKPOINT_RESTORE), ptrace = check_has(view, CAP_SYS_PTRACE);
	bool search = check_has(view, CAP_DAC_READ_SEARCH);
	const char *fix =
		"the capabilities are there: see the log of the security module (SELinux, AppArmor, Yama)";
	char detail[200];

	if (!ptrace)
		fix = "add SYS_PTRACE to the container's capabilities";
	else if (!restore)
		fix = "add CHECKPOINT_RESTORE to the container's capabilities";
	else if (!search)
		fix = "add DAC_READ_SEARCH to the container's capabilities";

	snprintf(detail, sizeof detail, "/proc/1/map_files: %s; %s", strerror(-r),
		 ptrace && restore && search ? "process 1 is protected, others may be readable"
		 : ptrace ? "binaries are read through /proc/PID/root, deleted ones are not"
			  : "stacks of other processes end early and have no names");
	check_add(report, CHECK_DEGRADED, "binaries", detail, fix);
}

void check_binaries(const struct check_view *view, struct check_report *report)
{
	char path[96];
	int r = first_file_mapping(view, "1", path, sizeof path);

	if (r == -ENOENT) /* process 1 maps no file: look at our own process instead */
		r = first_file_mapping(view, "self", path, sizeof path);
	if (r == 0)
		r = view->open_file(view->ctx, path);
	if (r < 0)
		explain_binaries(view, report, r);
	else
		check_add(report, CHECK_OK, "binaries", "can be read through /proc/PID/map_files", "");
}
