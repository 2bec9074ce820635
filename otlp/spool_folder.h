// SPDX-License-Identifier: Apache-2.0
/*
 * The folder of a spool, and files in it. Whoever may write to a folder may put anything in it: links, FIFOs,
 * devices, files of any size. So the folder must belong to this process, and nobody else may write to it;
 * nothing that is not a plain file of this process is ever opened, waited for, or read. Rank 1 (otlp).
 */
#ifndef PROFLET_OTLP_SPOOL_FOLDER_H
#define PROFLET_OTLP_SPOOL_FOLDER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/*
 * Opens the folder at an absolute or relative path that has no symbolic link in it. With `create`, the folder
 * is made (mode 0700) if its parent exists, and others lose the right to write to it. 0 with a descriptor,
 * owned by the caller; -EPERM: it belongs to another user; -ELOOP: a part of the path is a symbolic link;
 * or another -errno of the file system.
 */
int spool_folder_open(const char *path, bool create, int *ret_fd);
/* Finds a folder as above, but without openat2(2). A descriptor with O_PATH, or -errno. */
int spool_folder_walk(const char *path);
/* What is wrong with the folder, for an operator: static string, NULL: strerror says it. */
const char *spool_folder_error(int error);

/* Whether the file is a plain one that this process, or root, has made and nobody else has a name for. */
bool spool_file_is_own(const struct stat *st);
/* Opens an own file of at most max_bytes for reading. A descriptor; -EBADMSG: it is none; or -errno. */
int spool_file_open(int dir_fd, const char *name, uint64_t max_bytes);
/*
 * Creates a file for writing, which did not exist before; removes what has the name if that is possible. A
 * descriptor, or -errno.
 */
int spool_file_create(int dir_fd, const char *name);

#endif
