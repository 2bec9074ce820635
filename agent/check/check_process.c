// SPDX-License-Identifier: Apache-2.0
/* Checks of what the agent can see of other processes: control groups, PIDs, binaries. */
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/check/check.h"
#include "agent/config/config.h"

#ifndef CAP_CHECKPOINT_RESTORE
#define CAP_CHECKPOINT_RESTORE 40
#endif

#define INITIAL_PID_NAMESPACE 4026531836u /* PROC_PID_INIT_INO of include/linux/proc_ns.h */

/* False also when there are more mounts than we read. */
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
			  "make process 1 readable in /proc, see the lines of proc and CAP_SYS_PTRACE");
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
		 relative ? ", paths are relative to the agent's own group; container ids still stand in them"
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

/* /proc/self/status counts one pid for each namespace from that of the mounted /proc down to the process's
 * own. */
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
		return; /* proc has its own line */
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

	if (r == -ENOENT) /* a process 1 without files says nothing; ask about ourselves */
		r = first_file_mapping(view, "self", path, sizeof path);
	if (r == 0)
		r = view->open_file(view->ctx, path);
	if (r < 0)
		explain_binaries(view, report, r);
	else
		check_add(report, CHECK_OK, "binaries", "can be read through /proc/PID/map_files", "");
}
