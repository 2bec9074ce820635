// SPDX-License-Identifier: Apache-2.0
#include "agent/proc/scan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/parse.h"
#include "agent/proc/entry.h"

/* PID_MAX_LIMIT of 64-bit kernels: the maximum number of ids. */
#define SCAN_MAX_BYTES ((1u << 22) * sizeof(uint32_t))

/*
 * Whether it is a directory named by a number. A procfs also has files, and "self" and "thread-self"
 * are links.
 */
static bool entry_is_task(const struct dirent *e, uint32_t *ret)
{
	if (e->d_type != DT_DIR && e->d_type != DT_UNKNOWN)
		return false;
	return e->d_name[0] != '0' && parse_u32(e->d_name, ret) == 0;
}

/* Takes ownership of fd, also on failure. */
static int dir_each(int fd, proc_scan_fn fn, void *data)
{
	_cleanup_closedir_ DIR *dir = fdopendir(fd);
	int r;

	if (!dir) {
		r = -errno;
		close(fd);
		return r;
	}
	for (;;) {
		struct dirent *e;
		uint32_t id;

		errno = 0;
		e = readdir(dir);
		if (!e)
			return -errno;
		if (!entry_is_task(e, &id))
			continue;
		r = fn(id, data);
		if (r < 0)
			return r;
	}
}

static int id_collect(uint32_t id, void *data)
{
	return buf_append(data, &id, sizeof id);
}

static int id_compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

int proc_scan(int proc_fd, proc_scan_fn fn, void *data)
{
	_cleanup_buf_ struct buf list = {.max = SCAN_MAX_BYTES};
	int fd = openat(proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const uint32_t *ids;
	size_t n;
	int r;

	if (fd < 0)
		return -errno;
	r = dir_each(fd, id_collect, &list);
	if (r < 0)
		return r;
	ids = (const uint32_t *)list.data;
	n = list.len / sizeof *ids;
	if (n)
		qsort(list.data, n, sizeof *ids, id_compare);
	for (size_t i = 0; i < n; i++) {
		r = fn(ids[i], data);
		if (r < 0)
			return r;
	}
	return 0;
}

int proc_scan_threads(int proc_fd, uint32_t pid, proc_scan_fn fn, void *data)
{
	int fd = proc_entry_open(proc_fd, pid, "task", O_RDONLY | O_DIRECTORY);
	int r;

	if (fd < 0)
		return fd;
	r = dir_each(fd, fn, data);
	return r == -ENOENT ? proc_entry_error(proc_fd, pid, ENOENT) : r;
}
