// SPDX-License-Identifier: Apache-2.0
#include "agent/proc/entry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "agent/base/cleanup.h"

bool proc_entry_gone(int proc_fd, uint32_t pid)
{
	char name[16];
	struct stat st;

	snprintf(name, sizeof name, "%u", pid);
	return fstatat(proc_fd, name, &st, 0) < 0 && errno == ENOENT;
}

int proc_entry_error(int proc_fd, uint32_t pid, int error)
{
	if (error != ENOENT && error != EACCES && error != ESRCH)
		return -error;
	if (proc_entry_gone(proc_fd, pid))
		return -ESRCH;
	return error == ESRCH ? -ENOENT : -error;
}

int proc_entry_open(int proc_fd, uint32_t pid, const char *name, int flags)
{
	char path[64];
	int n, fd;

	n = snprintf(path, sizeof path, "%u/%s", pid, name);
	if (n < 0 || n >= (int)sizeof path)
		return -ENAMETOOLONG;
	fd = openat(proc_fd, path, flags | O_CLOEXEC);
	return fd < 0 ? proc_entry_error(proc_fd, pid, errno) : fd;
}

ssize_t proc_read(int fd, void *buf, size_t size)
{
	ssize_t n;

	do
		n = read(fd, buf, size);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

ssize_t proc_entry_read(int proc_fd, uint32_t pid, const char *name, void *buf, size_t size)
{
	_cleanup_close_ int fd = proc_entry_open(proc_fd, pid, name, O_RDONLY);
	size_t len = 0;

	if (fd < 0)
		return fd;
	while (len < size) {
		ssize_t n = proc_read(fd, (char *)buf + len, size - len);

		if (n < 0)
			return proc_entry_error(proc_fd, pid, (int)-n);
		if (n == 0)
			break;
		len += (size_t)n;
	}
	return (ssize_t)len;
}
