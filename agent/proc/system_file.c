// SPDX-License-Identifier: Apache-2.0
#include "agent/proc/system_file.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/proc/beneath.h"
#include "agent/proc/root.h"

#define NAME_BYTES 256u /* of a path's component, with NUL */

static const char *const folders[] = {"/usr/", "/bin/", "/sbin/", "/lib/", "/lib32/", "/lib64/"};

static bool is_below_a_folder(const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		if (strncmp(path, folders[i], strlen(folders[i])) == 0)
			return true;
	return false;
}

/* Permissions of an access control list are in the group's bits, too. */
static bool only_root_writes(const struct stat *st, mode_t kind)
{
	return (st->st_mode & S_IFMT) == kind && st->st_uid == 0 && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

/* The next component of *path, which goes on behind it. False: there is none, or none of this length. */
static bool next_name(const char **path, char name[NAME_BYTES])
{
	size_t n;

	*path += strspn(*path, "/");
	n = strcspn(*path, "/");
	if (!n || n >= NAME_BYTES)
		return false;
	memcpy(name, *path, n);
	name[n] = '\0';
	*path += n;
	return strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

bool proc_is_system_file(const struct proc_root *root, const char *path, int fd)
{
	_cleanup_close_ int folder = -1;
	struct stat file, st;
	char name[NAME_BYTES];

	if (!root || !root->is_hosts || root->prefix[0] || !is_below_a_folder(path) || fstat(fd, &file) < 0 ||
	    !only_root_writes(&file, S_IFREG) || fstat(root->fd, &st) < 0)
		return false;
	for (unsigned depth = 0; only_root_writes(&st, S_IFDIR); depth++) {
		int entry = depth < BENEATH_DEPTH_MAX && next_name(&path, name)
				    ? proc_beneath_entry(depth ? folder : root->fd, name)
				    : -1;

		if (folder >= 0)
			close(folder);
		folder = entry;
		if (folder < 0 || fstat(folder, &st) < 0)
			return false;
	}
	return !*path && st.st_dev == file.st_dev && st.st_ino == file.st_ino;
}
