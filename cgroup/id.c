// SPDX-License-Identifier: Apache-2.0
#include "cgroup/id.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/fs.h"

/* Fifteen hierarchies with paths of PATH_MAX bytes. */
#define CGROUP_FILE_MAX (64u << 10)

/*
 * A process may end before the open (its directory is gone) or between open and read (the read says ESRCH).
 */
static int map_error(int r)
{
	return r == -ENOENT ? -ESRCH : r;
}

int cgroup_id_read(int proc_fd, pid_t pid, const struct cgroup_observer *from, struct cgroup_identity *ret)
{
	_cleanup_buf_ struct buf text = {0};
	_cleanup_close_ int fd = -1;
	char path[48];
	int r;

	snprintf(path, sizeof path, "%s%ld/cgroup", proc_fd < 0 ? "/proc/" : "", (long)pid);
	fd = openat(proc_fd < 0 ? AT_FDCWD : proc_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return map_error(-errno);
	buf_init(&text, 2 * CGROUP_FILE_MAX);
	r = fs_read_fd(fd, CGROUP_FILE_MAX, &text);
	if (r < 0)
		return map_error(r);
	cgroup_path_parse((const char *)text.data, text.len, from, ret);
	return 0;
}
