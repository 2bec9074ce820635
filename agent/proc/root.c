// SPDX-License-Identifier: Apache-2.0
#include "agent/proc/root.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/base/cleanup.h"
#include "agent/base/resources.h"
#include "agent/proc/entry.h"
#include "agent/proc/open.h"

DEFINE_CLEANUP(struct proc_root *, proc_root_unref)

static atomic_uint n_open; /* by proc_root_open */

int proc_root_of_folder(struct proc_root **ret, int fd)
{
	struct proc_root *root = calloc(1, sizeof *root);

	if (root)
		root->prefix = strdup("");
	if (!root || !root->prefix) {
		free(root);
		return -ENOMEM;
	}
	root->refs = 1;
	root->fd = fd;
	*ret = root;
	return 0;
}

/*
 * The path of the root as maps shows it, seen from our own root: "/" if the process has the same root, or a
 * mount namespace of its own.
 */
static int read_prefix(struct proc_root *root, int proc_fd, uint32_t pid)
{
	char name[32], link[PATH_MAX];
	ssize_t len;

	snprintf(name, sizeof name, "%u/root", pid);
	len = readlinkat(proc_fd, name, link, sizeof link - 1);
	if (len < 0)
		return proc_entry_error(proc_fd, pid, errno);
	link[len] = '\0';
	if (link[0] != '/' || !link[1])
		return 0;
	free(root->prefix);
	root->prefix = strdup(link);
	return root->prefix ? 0 : -ENOMEM;
}

static bool shares_mounts(int proc_fd, uint32_t pid)
{
	struct stat other;
	uint64_t its;

	if (proc_mount_namespace(proc_fd, pid, &its) < 0)
		return false;
	return (stat("/proc/self/ns/mnt", &other) == 0 && other.st_ino == its) ||
	       (stat("/proc/1/ns/mnt", &other) == 0 && other.st_ino == its);
}

/* Which mount it is, while it is open; 0: the kernel does not say (before 5.8). */
static void read_identity(struct proc_root *root)
{
	struct statx st;

	if (statx(root->fd, "", AT_EMPTY_PATH, STATX_INO | STATX_MNT_ID, &st) < 0 ||
	    !(st.stx_mask & STATX_MNT_ID))
		return;
	root->mount = st.stx_mnt_id;
	root->inode = st.stx_ino;
}

/* Counts it. Beyond the maximum, binaries and the agent itself would have no descriptors. */
static bool admit(void)
{
	if (atomic_fetch_add(&n_open, 1) < resources_roots_max())
		return true;
	atomic_fetch_sub(&n_open, 1);
	return false;
}

int proc_root_open(struct proc_root **ret, int proc_fd, uint32_t pid)
{
	_cleanup_close_ int fd = proc_entry_open(proc_fd, pid, "root", O_PATH | O_DIRECTORY);
	_cleanup_(proc_root_unref_p) struct proc_root *root = NULL;
	int r;

	if (fd < 0)
		return fd;
	r = proc_root_of_folder(&root, fd);
	if (r < 0)
		return r;
	TAKE_FD(fd);
	root->counted = admit();
	if (!root->counted)
		return -EMFILE;
	read_identity(root);
	root->is_hosts = shares_mounts(proc_fd, pid);
	r = read_prefix(root, proc_fd, pid);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(root);
	return 0;
}

struct proc_root *proc_root_ref(struct proc_root *root)
{
	root->refs++;
	return root;
}

void proc_root_unref(struct proc_root *root)
{
	if (!root || --root->refs)
		return;
	if (root->counted)
		atomic_fetch_sub(&n_open, 1);
	close(root->fd);
	free(root->prefix);
	free(root);
}

bool proc_root_is_same(const struct proc_root *a, const struct proc_root *b)
{
	return a == b || (a->mount && a->mount == b->mount && a->inode == b->inode &&
			  a->is_hosts == b->is_hosts && strcmp(a->prefix, b->prefix) == 0);
}

const char *proc_root_strip(const struct proc_root *root, const char *path)
{
	size_t len = strlen(root->prefix);

	return len && strncmp(path, root->prefix, len) == 0 && path[len] == '/' ? path + len : path;
}
