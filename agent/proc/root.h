// SPDX-License-Identifier: Apache-2.0
/*
 * The root folder of a process, held open as long as files below it may be needed: the process may end
 * meanwhile, but its container's file system remains accessible. Shared by reference count, main loop only; a
 * worker may use `fd` and `prefix` while a reference is held for it. Rank 1; may include base.
 */
#ifndef PROFLET_PROC_ROOT_H
#define PROFLET_PROC_ROOT_H

#include <stdbool.h>
#include <stdint.h>

struct proc_root {
	unsigned refs;
	int fd;		       /* O_PATH | O_DIRECTORY */
	uint64_t mount, inode; /* which folder it is; mount 0: not known */
	bool counted;	       /* private to root.c */
	/*
	 * It is in the mount namespace of this process, or in PID 1's: its mounts are not the process's
	 * own.
	 */
	bool is_hosts;
	/*
	 * The prefix of its paths in /proc/<pid>/maps, owned: for a process in a chroot, these paths begin at
	 * the root that it left. "" for most processes.
	 */
	char *prefix;
};

/*
 * Opens the root of a process. 0; -ESRCH when it is gone, -EACCES without permission, -EMFILE where as many
 * are open as there may be (resources_roots_max); another -errno.
 */
int proc_root_open(struct proc_root **ret, int proc_fd, uint32_t pid);
/* Makes a root of a folder, not the host's; takes over the descriptor on success. 0 or -ENOMEM. */
int proc_root_of_folder(struct proc_root **ret, int fd);
struct proc_root *proc_root_ref(struct proc_root *root);
void proc_root_unref(struct proc_root *root); /* NULL is fine */
/* Both are the same folder of the same mount, whose number stays its own while a descriptor holds it. */
bool proc_root_is_same(const struct proc_root *a, const struct proc_root *b);
/* The part of a path from maps or perf that is below the root. Borrowed from `path`. */
const char *proc_root_strip(const struct proc_root *root, const char *path);

#endif
