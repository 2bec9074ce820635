// SPDX-License-Identifier: Apache-2.0
/*
 * Looks up paths as a process with another root does. The tree below that root is not trusted: its symbolic
 * links may lead anywhere, its FIFOs and devices may block or act when they are opened. Rank 1; may include
 * base. Owns nothing.
 */
#ifndef PROFLET_PROC_BENEATH_H
#define PROFLET_PROC_BENEATH_H

#include <sys/stat.h>

#define BENEATH_DEPTH_MAX 64 /* maximum depth of folders, and */
#define BENEATH_LINKS_MAX 40 /* maximum number of symbolic links, where the kernel lacks openat2(2) */

/*
 * Looks `path` up as a process with that root would. Returns a descriptor with O_PATH, owned by the caller.
 * Neither ".." nor links lead out of the root; links like /proc/1/root fail. Nothing is opened. -ENOENT,
 * -ENOTDIR, -ELOOP, -EACCES, -ENAMETOOLONG, or another -errno.
 */
int proc_beneath_find(int root_fd, const char *path);
/* The same without openat2(2): for kernels or filters that refuse it, and while names change all the time. */
int proc_beneath_walk(int root_fd, const char *path);
/*
 * Looks up an entry of a folder, without following a symbolic link (the descriptor is that of the link) and
 * without crossing a mount. Returns a descriptor with O_PATH, owned by the caller. -EXDEV: something is
 * mounted on it, or the kernel cannot tell; or another -errno.
 */
int proc_beneath_entry(int folder_fd, const char *name);
/* The same without openat2(2). */
int proc_beneath_entry_by_mount(int folder_fd, const char *name);
/*
 * Opens the regular file of a descriptor with O_PATH (borrowed) for reading. Returns a descriptor owned by
 * the caller. With O_NONBLOCK, so it does not wait until a lease is released. -ENODEV: it is not a regular
 * file, and was not opened; or -errno.
 */
int proc_beneath_reopen(int path_fd, struct stat *ret_st);
/*
 * Looks a regular file up and opens it for reading. Returns a descriptor owned by the caller. Errors
 * as above.
 */
int proc_beneath_open(int root_fd, const char *path, struct stat *ret_st);

#endif
