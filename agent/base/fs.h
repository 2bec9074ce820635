// SPDX-License-Identifier: Apache-2.0
/* Reads and writes small files as a whole. */
#ifndef PROFLET_BASE_FS_H
#define PROFLET_BASE_FS_H

#include <stdbool.h>
#include <stddef.h>

struct buf;

/*
 * Appends the content of `path`, or the remaining content of `fd`, to `b`. 0 or -errno; -EFBIG: it has more
 * than max_bytes.
 */
int fs_read_file(const char *path, size_t max_bytes, struct buf *b);
int fs_read_fd(int fd, size_t max_bytes, struct buf *b);
/* Writes everything, also when interrupted by signals. 0 or -errno. */
int fs_write_fd(int fd, const void *data, size_t len);
/* Writes a temporary file in the same directory and renames it. 0 or -errno. */
int fs_write_file(const char *path, const void *data, size_t len);

/*
 * Opens the regular file behind `fd`, which may be O_PATH, a second time for reading. Returns a descriptor
 * owned by the caller, or -errno. May block as long as the file system does.
 */
int fs_reopen(int fd);
/*
 * Whether an error of opening or reading says that memory, descriptors or the like were short, and nothing of
 * the file: the same may succeed later.
 */
bool fs_is_short(int error);
/* As fs_reopen(), without read-ahead, which may be megabytes: for a file of which parts are read. */
int fs_reopen_parts(int fd);

#endif
