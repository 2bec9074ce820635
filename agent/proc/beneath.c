// SPDX-License-Identifier: Apache-2.0
/*
 * openat2(2) with RESOLVE_IN_ROOT does the lookup in the kernel. Without it, the walk holds a descriptor of
 * every folder on the way, so that ".." returns to the previous folder whatever is renamed meanwhile. It also
 * reads each symbolic link itself and puts the link's text in front of the path that is left, from the root
 * if the text begins with a slash.
 */
#include "agent/proc/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>

#include "agent/base/cleanup.h"
#include "agent/base/fs.h"

/* openat2 fails with EAGAIN when any file anywhere is renamed or mounted meanwhile. */
#define OPENAT2_TRIES 16

struct walk {
	int root_fd;
	int dirs[BENEATH_DEPTH_MAX]; /* owned: the folders from the root to the current one */
	unsigned depth, n_links;
	char rest[PATH_MAX]; /* the part of the path that is not walked yet */
	char link[PATH_MAX];
};

static void walk_up(struct walk *w, unsigned to)
{
	while (w->depth > to)
		close(w->dirs[--w->depth]);
}

static void walk_end(struct walk *w)
{
	walk_up(w, 0);
}

static int walk_here(const struct walk *w)
{
	return w->depth ? w->dirs[w->depth - 1] : w->root_fd;
}

/* Removes the next name from the path that is left; false at its end. */
static bool walk_name(struct walk *w, char name[NAME_MAX + 1], int *ret_error)
{
	const char *p = w->rest + strspn(w->rest, "/");
	size_t len = strcspn(p, "/");

	if (len == 0)
		return false;
	if (len > NAME_MAX) {
		*ret_error = -ENAMETOOLONG;
		return false;
	}
	memcpy(name, p, len);
	name[len] = '\0';
	memmove(w->rest, p + len, strlen(p + len) + 1);
	return true;
}

static int walk_link(struct walk *w, int fd)
{
	ssize_t len = readlinkat(fd, "", w->link, sizeof w->link);
	size_t rest = strlen(w->rest);

	if (len <= 0)
		return len < 0 ? -errno : -ENOENT;
	if (++w->n_links > BENEATH_LINKS_MAX)
		return -ELOOP;
	if ((size_t)len + rest >= sizeof w->rest)
		return -ENAMETOOLONG;
	if (w->link[0] == '/')
		walk_up(w, 0);
	memmove(w->rest + len, w->rest, rest + 1); /* the path that is left is empty or begins with a slash */
	memcpy(w->rest, w->link, (size_t)len);
	return 0;
}

/* Walks to the next name. 0: continue; 1: *ret_fd is the file at the end of the path; -errno. */
static int walk_step(struct walk *w, const char *name, int *ret_fd)
{
	_cleanup_close_ int fd = -1;
	struct stat st;

	if (strcmp(name, ".") == 0)
		return 0;
	if (strcmp(name, "..") == 0) {
		walk_up(w, w->depth ? w->depth - 1 : 0);
		return 0;
	}
	fd = openat(walk_here(w), name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (S_ISLNK(st.st_mode))
		return walk_link(w, fd);
	if (S_ISDIR(st.st_mode)) {
		if (w->depth == BENEATH_DEPTH_MAX)
			return -ENAMETOOLONG;
		w->dirs[w->depth++] = TAKE_FD(fd);
		return 0;
	}
	if (w->rest[0])
		return -ENOTDIR;
	*ret_fd = TAKE_FD(fd);
	return 1;
}

int proc_beneath_walk(int root_fd, const char *path)
{
	_cleanup_(walk_end) struct walk w = {.root_fd = root_fd};
	char name[NAME_MAX + 1];
	int r = 0, fd;

	if (strlen(path) >= sizeof w.rest)
		return -ENAMETOOLONG;
	if (!path[0])
		return -ENOENT;
	memcpy(w.rest, path, strlen(path) + 1);
	while (walk_name(&w, name, &r)) {
		r = walk_step(&w, name, &fd);
		if (r != 0)
			return r < 0 ? r : fd;
	}
	if (r < 0)
		return r;
	fd = fcntl(walk_here(&w), F_DUPFD_CLOEXEC, 3);
	return fd < 0 ? -errno : fd;
}

/* A descriptor with O_PATH; -ENOSYS: the lookup must be done without openat2; or another -errno. */
static int find_in_kernel(int folder_fd, const char *path, uint64_t flags, uint64_t resolve)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC | flags, .resolve = resolve};

	for (int i = 0; i < OPENAT2_TRIES; i++) {
		int fd = (int)syscall(SYS_openat2, folder_fd, path, &how, sizeof how);

		if (fd >= 0)
			return fd;
		if (errno == EPERM) /* a seccomp filter that does not know openat2 */
			break;
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
	}
	return -ENOSYS;
}

int proc_beneath_find(int root_fd, const char *path)
{
	int fd = find_in_kernel(root_fd, path, 0, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);

	return fd == -ENOSYS ? proc_beneath_walk(root_fd, path) : fd;
}

/* The mount of a descriptor. 0; -EXDEV: the kernel does not tell. */
static int mount_of(int fd, uint64_t *ret)
{
	struct statx x;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &x) < 0 ||
	    !(x.stx_mask & STATX_MNT_ID))
		return -EXDEV;
	*ret = x.stx_mnt_id;
	return 0;
}

int proc_beneath_entry_by_mount(int folder_fd, const char *name)
{
	_cleanup_close_ int fd = openat(folder_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	uint64_t folder, entry;
	int r;

	if (fd < 0)
		return -errno;
	r = mount_of(folder_fd, &folder);
	if (r == 0)
		r = mount_of(fd, &entry);
	if (r == 0 && entry != folder)
		r = -EXDEV;
	return r < 0 ? r : TAKE_FD(fd);
}

int proc_beneath_entry(int folder_fd, const char *name)
{
	int fd = find_in_kernel(folder_fd, name, O_NOFOLLOW,
				RESOLVE_BENEATH | RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS |
					RESOLVE_NO_SYMLINKS);

	return fd == -ENOSYS ? proc_beneath_entry_by_mount(folder_fd, name) : fd;
}

int proc_beneath_reopen(int path_fd, struct stat *ret_st)
{
	struct stat st;
	int fd;

	if (fstat(path_fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ENODEV;
	fd = fs_reopen(path_fd);
	if (fd < 0)
		return fd;
	*ret_st = st;
	return fd;
}

int proc_beneath_open(int root_fd, const char *path, struct stat *ret_st)
{
	_cleanup_close_ int path_fd = proc_beneath_find(root_fd, path);

	return path_fd < 0 ? path_fd : proc_beneath_reopen(path_fd, ret_st);
}
