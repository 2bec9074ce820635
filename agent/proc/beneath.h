// SPDX-License-Identifier: Apache-2.0
/*
 * Paths as a process with another root sees them. The tree below that root is not trusted: its symbolic links
 * may lead anywhere, its FIFOs and devices may hang or act on whoever opens them. Rank 1; may include base.
 * Owns nothing.
 */
#ifndef PROFLET_PROC_BENEATH_H
#define PROFLET_PROC_BENEATH_H

#include <sys/stat.h>

#define BENEATH_DEPTH_MAX 64 /* folders deep, and */
#define BENEATH_LINKS_MAX 40 /* symbolic links followed, where the kernel lacks openat2(2) */

/*
 * Looks `path` up as a process with that root would, and returns a descriptor with O_PATH, the caller's. ".."
 * and links never leave the root; links like /proc/1/root lead nowhere. Nothing is opened. -ENOENT, -ENOTDIR,
 * -ELOOP, -EACCES, -ENAMETOOLONG, another -errno.
 */
int proc_beneath_find(int root_fd, const char *path);
/* The same, step by step: for kernels or filters that refuse openat2(2), and names that change all the time.
 */
int proc_beneath_walk(int root_fd, const char *path);
/* From a descriptor with O_PATH (borrowed) to one for reading, the caller's. O_NONBLOCK: it does not wait for
 * a lease to be given up. -ENODEV: not a regular file, which is then not opened; -errno. */
int proc_beneath_reopen(int path_fd, struct stat *ret_st);
/* Finds a regular file and opens it for reading. The descriptor is the caller's. Errors as above. */
int proc_beneath_open(int root_fd, const char *path, struct stat *ret_st);

#endif
