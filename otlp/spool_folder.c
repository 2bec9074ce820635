// SPDX-License-Identifier: Apache-2.0
#include "otlp/spool_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/base/cleanup.h"

#define OPENAT2_TRIES 16 /* it fails with EAGAIN when anything anywhere is renamed meanwhile */
#define OTHERS_WRITE (S_IWGRP | S_IWOTH)

int spool_folder_walk(const char *path)
{
	_cleanup_close_ int fd = open(*path == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	while (*(path += strspn(path, "/"))) {
		size_t len = strcspn(path, "/");
		char name[NAME_MAX + 1];
		struct stat st;
		int next;

		if (len > NAME_MAX)
			return -ENAMETOOLONG;
		memcpy(name, path, len);
		name[len] = '\0';
		path += len;
		next = openat(fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			return -errno;
		close(fd);
		fd = next;
		if (fstat(fd, &st) < 0)
			return -errno;
		if (!S_ISDIR(st.st_mode))
			return S_ISLNK(st.st_mode) ? -ELOOP : -ENOTDIR;
	}
	return TAKE_FD(fd);
}

/* Finds a folder; follows no symbolic link. A descriptor with O_PATH. */
static int find(const char *path)
{
	struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
			       .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};

	for (int i = 0; i < OPENAT2_TRIES; i++) {
		long fd = syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);

		if (fd >= 0)
			return (int)fd;
		if (errno == ENOSYS || errno == EPERM) /* an old kernel, or a filter that does not know it */
			break;
		if (errno != EAGAIN)
			return -errno;
	}
	return spool_folder_walk(path);
}

/* Makes the last folder of the path, below a parent that exists. */
static int make(const char *path)
{
	size_t len = strlen(path), start;
	_cleanup_close_ int parent = -1;
	char head[PATH_MAX], name[NAME_MAX + 1];

	while (len > 1 && path[len - 1] == '/')
		len--;
	for (start = len; start && path[start - 1] != '/';)
		start--;
	if (len - start > NAME_MAX || start + 2 > sizeof head)
		return -ENAMETOOLONG;
	memcpy(name, path + start, len - start);
	name[len - start] = '\0';
	memcpy(head, start ? path : ".", start ? start : 1);
	head[start ? start : 1] = '\0';
	parent = find(head);
	if (parent < 0)
		return parent;
	return mkdirat(parent, name, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

static int check_rights(int fd, bool change)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_uid != geteuid())
		return -EPERM;
	if (st.st_mode & OTHERS_WRITE && change)
		return fchmod(fd, 0700) < 0 ? -errno : 0;
	return 0;
}

int spool_folder_open(const char *path, bool create, int *ret_fd)
{
	_cleanup_close_ int found = -1, fd = -1;
	int r;

	found = find(path);
	if (found == -ENOENT && create) {
		r = make(path);
		if (r < 0)
			return r;
		found = find(path);
	}
	if (found < 0)
		return found;
	fd = openat(found, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = check_rights(fd, create);
	if (r < 0)
		return r;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

const char *spool_folder_error(int error)
{
	if (error == -EPERM)
		return "it belongs to another user, who could put anything in it; the agent's user must own "
		       "it";
	if (error == -ELOOP)
		return "a part of its path is a symbolic link";
	return NULL;
}

bool spool_file_is_own(const struct stat *st)
{
	return S_ISREG(st->st_mode) && (st->st_uid == geteuid() || st->st_uid == 0) && st->st_nlink <= 1;
}

int spool_file_open(int dir_fd, const char *name, uint64_t max_bytes)
{
	_cleanup_close_ int fd =
		openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0)
		return errno == ELOOP || errno == ENXIO || errno == EISDIR ? -EBADMSG : -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	return spool_file_is_own(&st) && (uint64_t)st.st_size <= max_bytes ? TAKE_FD(fd) : -EBADMSG;
}

int spool_file_create(int dir_fd, const char *name)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
	int fd = openat(dir_fd, name, flags, 0600);

	if (fd >= 0 || errno != EEXIST)
		return fd >= 0 ? fd : -errno;
	if (unlinkat(dir_fd, name, 0) < 0 && unlinkat(dir_fd, name, AT_REMOVEDIR) < 0)
		return -EEXIST;
	fd = openat(dir_fd, name, flags, 0600);
	return fd >= 0 ? fd : -errno;
}
