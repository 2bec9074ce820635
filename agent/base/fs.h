// SPDX-License-Identifier: Apache-2.0
/* Small files, read and written whole. Rank 0. */
#ifndef PROFLET_BASE_FS_H
#define PROFLET_BASE_FS_H

#include <stddef.h>

struct buf;

/* Appends the content of `path` (or of what `fd` has left) to `b`. 0 or -errno; -EFBIG past max_bytes. */
int fs_read_file(const char *path, size_t max_bytes, struct buf *b);
int fs_read_fd(int fd, size_t max_bytes, struct buf *b);
/* Writes all of it, whatever interrupts. 0 or -errno. */
int fs_write_fd(int fd, const void *data, size_t len);
/* Writes the file through a temporary name beside it and renames it into place. 0 or -errno. */
int fs_write_file(const char *path, const void *data, size_t len);

/*
 * Another open file description of a regular file, for reading, the caller's; `fd` may have O_PATH. It may
 * block as long as the file system does. -errno.
 */
int fs_reopen(int fd);

#endif
