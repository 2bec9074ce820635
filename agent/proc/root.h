// SPDX-License-Identifier: Apache-2.0
/*
 * The root folder of a process, kept for as long as files below it may be wanted: the process may end in
 * between, its container's file system stays. Shared by reference count, main loop only; a worker may use
 * `fd` and `prefix` while somebody holds a reference for it. Rank 1; may include base.
 */
#ifndef PROFLET_PROC_ROOT_H
#define PROFLET_PROC_ROOT_H

#include <stdint.h>

struct proc_root {
	unsigned refs;
	int fd; /* O_PATH | O_DIRECTORY */
	/* What a path as /proc/<pid>/maps gives it begins with: a process in a chroot has paths of the
	 * root that it left. "" for most. Owned. */
	char *prefix;
};

/* The root of a process. 0; -ESRCH when it is gone, -EACCES without the right to look, -EMFILE, another
 * -errno. */
int proc_root_open(struct proc_root **ret, int proc_fd, uint32_t pid);
/* A folder as root; takes the descriptor on success. 0 or -ENOMEM. */
int proc_root_of_folder(struct proc_root **ret, int fd);
struct proc_root *proc_root_ref(struct proc_root *root);
void proc_root_unref(struct proc_root *root); /* NULL is fine */
/* The path below the root of a path from maps or perf; part of `path`. */
const char *proc_root_strip(const struct proc_root *root, const char *path);

#endif
