// SPDX-License-Identifier: Apache-2.0
/*
 * The root of our own mount of the hierarchy is the root of our namespace. Its file handle contains the
 * cgroup's id, which is the same in every mount: we open the handle through PID 1's mount, and the kernel
 * then names the path in that mount.
 */
#include "cgroup/namespace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/fs.h"

#define MOUNTS_MAX (4u << 20)	      /* bytes of a mountinfo */
#define INITIAL "cgroup:[4026531835]" /* PROC_CGROUP_INIT_INO of include/linux/proc_ns.h */

/* Reads the text of a link. 0 or -errno. */
static int read_link(const char *path, char ret[PATH_MAX])
{
	ssize_t n = readlink(path, ret, PATH_MAX - 1);

	if (n < 0)
		return -errno;
	ret[n] = '\0';
	return 0;
}

/* 1: we share PID 1's namespace, or are in the initial one; 0: we do not; or -errno. */
static int is_shared(void)
{
	char own[PATH_MAX], first[PATH_MAX];
	int r = read_link("/proc/self/ns/cgroup", own);

	if (r < 0 || strcmp(own, INITIAL) == 0)
		return r < 0 ? r : 1;
	r = read_link("/proc/1/ns/cgroup", first);
	return r < 0 ? r : strcmp(own, first) == 0;
}

/*
 * Parses a line of mountinfo (proc(5)): number, parent, device, root, mount point, options, …, "-", type. The
 * root is "/" where the mount shows all of the reader's own namespace.
 */
static bool is_unified(char *line, bool own, const char **ret)
{
	char *save = NULL, *fields[5], *type = strstr(line, " - ");

	if (!type || strncmp(type, " - cgroup2 ", 11) != 0)
		return false;
	*type = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		if (!(fields[i] = strtok_r(i ? NULL : line, " ", &save)))
			return false;
	*ret = fields[4];
	return !strchr(fields[4], '\\') && (!own || strcmp(fields[3], "/") == 0);
}

/*
 * Finds where a process has mounted the hierarchy. `own`: this process; its mount must show all of
 * our namespace.
 */
static int find_mount(const char *mountinfo, bool own, char ret[PATH_MAX])
{
	_cleanup_buf_ struct buf text = {0};
	const char *point;
	char *at, *line;
	int r = fs_read_file(mountinfo, MOUNTS_MAX, &text);

	if (r == 0)
		r = buf_putc(&text, '\0');
	if (r < 0)
		return r;
	at = (char *)text.data;
	while ((line = strsep(&at, "\n")))
		if (is_unified(line, own, &point) && strlen(point) < PATH_MAX) {
			strcpy(ret, point);
			return 0;
		}
	return -ENOENT;
}

/* Opens the cgroup at the root of our mount through the mount at `other`. */
static int open_there(const char *own, int other)
{
	union {
		struct file_handle handle;
		char bytes[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	} h = {.handle.handle_bytes = MAX_HANDLE_SZ};
	int mount, fd;

	if (name_to_handle_at(AT_FDCWD, own, &h.handle, &mount, 0) < 0)
		return -errno;
	fd = open_by_handle_at(other, &h.handle, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int cgroup_namespace_find(char **ret)
{
	char own[PATH_MAX], other[PATH_MAX], path[PATH_MAX + 16];
	_cleanup_close_ int root = -1, fd = -1;
	const char *below = "";
	int r = is_shared();

	if (r == 0) {
		r = find_mount("/proc/self/mountinfo", true, own);
		if (r == 0)
			r = find_mount("/proc/1/mountinfo", false, other);
		if (r < 0)
			return r;
		snprintf(path, sizeof path, "/proc/1/root%s", other);
		root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (root < 0)
			return -errno;
		fd = open_there(own, root);
		if (fd < 0)
			return fd;
		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		r = read_link(path, own);
		if (r == 0 && strncmp(own, other, strlen(other)) != 0)
			r = -ENOENT; /* it is above the part that PID 1 has mounted */
		below = own + strlen(other);
	}
	if (r < 0)
		return r;
	*ret = strdup(strcmp(below, "/") == 0 ? "" : below);
	return *ret ? 0 : -ENOMEM;
}
