// SPDX-License-Identifier: Apache-2.0
/*
 * Each way ends in the same three steps. A descriptor with O_PATH names the file without opening it, so a
 * FIFO does not block and a device has no side effect. fstat(2) on it shows whether it is the right file.
 * Then /proc/self/fd/N opens for reading exactly the inode that was checked, even if the names have changed
 * since.
 *
 * All lookups use one descriptor of /proc/<pid>, which is bound to that process: if the pid is reused in
 * between, they fail and do not find the other process.
 */
#include "agent/proc/open.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "agent/base/cleanup.h"
#include "agent/proc/beneath.h"
#include "agent/proc/entry.h"
#include "agent/proc/maps.h"
#include "agent/proc/scan.h"

#ifndef BTRFS_SUPER_MAGIC
#define BTRFS_SUPER_MAGIC 0x9123683E
#endif
#ifndef OVERLAYFS_SUPER_MAGIC
#define OVERLAYFS_SUPER_MAGIC 0x794c7630
#endif

#define DELETED " (deleted)"

static const char *const way_names[PROC_OPEN_N_WAYS] = {"map_files", "root", "task_root", "other"};

const char *proc_open_way_name(enum proc_open_way way)
{
	return (unsigned)way < PROC_OPEN_N_WAYS ? way_names[way] : "unknown";
}

/* Errors from the most to the least informative; errors that are not listed come last. */
static unsigned error_rank(int error)
{
	static const int order[] = {EMFILE, ENFILE, ENOMEM, ESRCH, EACCES, EPERM, ESTALE, ENODEV};
	unsigned i;

	for (i = 0; i < ARRAY_SIZE(order); i++)
		if (-error == order[i])
			return i;
	return error == -ENOENT ? i + 1 : i; /* ENOENT is the least informative */
}

static int error_merge(int a, int b)
{
	return error_rank(b) < error_rank(a) ? b : a;
}

static bool error_is_final(int error)
{
	return error == -EMFILE || error == -ENFILE || error == -ENOMEM || error == -ETIMEDOUT;
}

/* 0 if the file is the requested one, as far as stat can tell; else -ENODEV, -ESTALE, -errno. */
static int file_verify(int fd, const struct proc_open_request *req, enum proc_open_way way,
		       const struct stat *st)
{
	bool same_inode, same_device, overlay;
	struct statfs fs;

	if (!S_ISREG(st->st_mode))
		return -ENODEV;
	if (!req->has_inode)
		return 0;
	same_inode = st->st_ino == req->inode;
	same_device = major(st->st_dev) == req->dev_major && minor(st->st_dev) == req->dev_minor;
	if (same_inode && same_device)
		return 0;
	if (fstatfs(fd, &fs) < 0)
		return -errno;
	overlay = (uint32_t)fs.f_type == OVERLAYFS_SUPER_MAGIC;
	if (same_inode)
		return overlay || (uint32_t)fs.f_type == BTRFS_SUPER_MAGIC ? 0 : -ESTALE;
	return overlay && way == PROC_OPEN_MAP_FILES ? 0 : -ESTALE;
}

/* Reports the device of the file system without accessing it. -ETIMEDOUT: it must not be accessed. */
static int file_announce(int path_fd, struct proc_open_watch *watch)
{
	struct statx st;
	uint64_t dev;

	if (statx(path_fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &st) < 0)
		return -errno;
	dev = makedev(st.stx_dev_major, st.stx_dev_minor);
	__atomic_store_n(&watch->dev, dev, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < watch->n_refused; i++)
		if (watch->refused[i] == dev)
			return -ETIMEDOUT;
	return 0;
}

/* Checks and opens the file of a descriptor with O_PATH, which is taken over only on success. */
static int file_accept(int *path_fd, const struct proc_open_request *req, enum proc_open_way way,
		       struct proc_opened *ret)
{
	bool check = req->check && !(req->unread && way == PROC_OPEN_MAP_FILES);
	_cleanup_close_ int fd = -1;
	struct stat st;
	int r = req->watch ? file_announce(*path_fd, req->watch) : 0;

	if (r < 0)
		return r;
	if (fstat(*path_fd, &st) < 0)
		return -errno;
	r = file_verify(*path_fd, req, way, &st);
	if (r < 0)
		return r;
	if (check || !req->unread) {
		fd = proc_beneath_reopen(*path_fd, &st);
		if (fd < 0)
			return fd;
	}
	if (check && !req->check(fd, req->check_data))
		return -ESTALE;
	ret->fd = req->unread ? TAKE_FD(*path_fd) : TAKE_FD(fd);
	ret->st = st;
	ret->way = way;
	return 0;
}

static int range_open(int pid_fd, const struct proc_open_request *req, uint64_t start, uint64_t end,
		      struct proc_opened *ret)
{
	_cleanup_close_ int path_fd = -1;
	char name[64];

	snprintf(name, sizeof name, "map_files/%llx-%llx", (unsigned long long)start,
		 (unsigned long long)end);
	path_fd = openat(pid_fd, name, O_PATH | O_CLOEXEC);
	/* Newer kernels return ESRCH when the main thread has ended and has no memory. */
	if (path_fd < 0)
		return errno == ESRCH ? -ENOENT : -errno;
	return file_accept(&path_fd, req, PROC_OPEN_MAP_FILES, ret);
}

struct rest {
	const struct proc_open_request *req;
	uint64_t start, end; /* 0, 0: not found */
	unsigned n_lines;
};

static int rest_look(const struct proc_maps_line *line, void *data)
{
	struct rest *r = data;
	const struct proc_open_request *req = r->req;

	if (r->n_lines++ == PROC_OPEN_MAX_LINES || line->start >= req->end)
		return -ECANCELED;
	if (line->end <= req->start || line->inode != req->inode || line->dev_major != req->dev_major ||
	    line->dev_minor != req->dev_minor)
		return 0;
	r->start = line->start;
	r->end = line->end;
	return -ECANCELED;
}

/*
 * A part of the mapping that is still there. The arm64 loader maps the whole of a library as code, then other
 * segments over it, so the mapping that the kernel announces lasts for microseconds.
 */
static int rest_open(int proc_fd, int pid_fd, const struct proc_open_request *req, struct proc_opened *ret)
{
	struct rest rest = {.req = req};
	int r;

	if (!req->has_inode)
		return -ENOENT;
	r = proc_maps_read_all(proc_fd, req->pid, rest_look, &rest);
	if (!rest.end)
		return r < 0 && r != -ECANCELED ? r : -ENOENT;
	return range_open(pid_fd, req, rest.start, rest.end, ret);
}

static int map_files_open(int proc_fd, int pid_fd, const struct proc_open_request *req,
			  struct proc_opened *ret)
{
	int r;

	if (req->start >= req->end)
		return -ENOENT;
	r = range_open(pid_fd, req, req->start, req->end, ret);
	return r == -ENOENT ? rest_open(proc_fd, pid_fd, req, ret) : r;
}

/* True if the path may name an existing file. For anonymous memory, perf writes "//anon". */
static bool path_usable(const struct proc_open_request *req)
{
	const size_t deleted = sizeof DELETED - 1;
	size_t len;

	if (!req->path || req->path[0] != '/' || req->path[1] == '/' || req->deleted)
		return false;
	len = strlen(req->path);
	return len <= deleted || strcmp(req->path + len - deleted, DELETED) != 0;
}

static bool provable(const struct proc_open_request *req)
{
	return req->has_inode || req->check;
}

/* `root` is the name of a root link below dir_fd. */
static int root_open(int dir_fd, const char *root, const struct proc_open_request *req,
		     enum proc_open_way way, struct proc_opened *ret)
{
	_cleanup_close_ int root_fd = -1, path_fd = -1;

	if (!path_usable(req))
		return -ENOENT;
	root_fd = openat(dir_fd, root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root_fd < 0)
		return -errno;
	path_fd = proc_beneath_find(root_fd, req->path);
	return path_fd < 0 ? path_fd : file_accept(&path_fd, req, way, ret);
}

struct thread_roots {
	int pid_fd;
	const struct proc_open_request *req;
	struct proc_opened *ret;
	unsigned n_tried;
	int result;
};

static int thread_root_try(uint32_t tid, void *data)
{
	struct thread_roots *t = data;
	char name[32];
	int r;

	if (tid == t->req->pid)
		return 0;
	if (t->n_tried++ == PROC_OPEN_MAX_THREADS)
		return -ECANCELED;
	snprintf(name, sizeof name, "task/%u/root", tid);
	r = root_open(t->pid_fd, name, t->req, PROC_OPEN_TASK_ROOT, t->ret);
	t->result = r == 0 ? 0 : error_merge(t->result, r);
	return r == 0 || error_is_final(r) ? -ECANCELED : 0;
}

static int task_roots_open(int proc_fd, int pid_fd, const struct proc_open_request *req,
			   struct proc_opened *ret)
{
	struct thread_roots t = {.pid_fd = pid_fd, .req = req, .ret = ret, .result = -ENOENT};
	int r = proc_scan_threads(proc_fd, req->pid, thread_root_try, &t);

	return r < 0 && r != -ECANCELED ? error_merge(t.result, r) : t.result;
}

/* Opens <pid> as a descriptor that is bound to the process. -ESRCH if there is none. */
static int process_open(int proc_fd, uint32_t pid)
{
	char name[16];
	int fd;

	snprintf(name, sizeof name, "%u", pid);
	fd = openat(proc_fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	return fd;
}

/* If the process ended meanwhile, that is the reason, whatever error a way returned. */
static int process_error(int proc_fd, uint32_t pid, int error)
{
	return !error_is_final(error) && proc_entry_gone(proc_fd, pid) ? -ESRCH : error;
}

int proc_open_mapping(int proc_fd, const struct proc_open_request *req, struct proc_opened *ret)
{
	_cleanup_close_ int pid_fd = process_open(proc_fd, req->pid);
	int r, error;

	if (pid_fd < 0)
		return pid_fd;
	error = map_files_open(proc_fd, pid_fd, req, ret);
	if (error == 0 || error_is_final(error))
		return error;
	if (!path_usable(req) || !provable(req))
		return process_error(proc_fd, req->pid, error);
	r = root_open(pid_fd, "root", req, PROC_OPEN_ROOT, ret);
	if (r == 0)
		return 0;
	error = error_merge(error, r);
	if (error_is_final(error))
		return error;
	r = task_roots_open(proc_fd, pid_fd, req, ret);
	return r == 0 ? 0 : process_error(proc_fd, req->pid, error_merge(error, r));
}

int proc_open_other(int proc_fd, uint32_t other_pid, const struct proc_open_request *req,
		    struct proc_opened *ret)
{
	_cleanup_close_ int pid_fd = -1;
	int r;

	if (!provable(req))
		return -EINVAL;
	pid_fd = process_open(proc_fd, other_pid);
	if (pid_fd < 0)
		return pid_fd;
	r = root_open(pid_fd, "root", req, PROC_OPEN_OTHER, ret);
	return r < 0 ? process_error(proc_fd, other_pid, r) : 0;
}

int proc_mount_namespace(int proc_fd, uint32_t pid, uint64_t *ret)
{
	_cleanup_close_ int fd = proc_entry_open(proc_fd, pid, "ns/mnt", O_PATH);
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	*ret = st.st_ino;
	return 0;
}
