// SPDX-License-Identifier: Apache-2.0
/* One file of the cache: made from an open descriptor, its strings and segments owned. Whoever opens
 * files away from the main loop makes it there, and brings it to unwind_cache_enter.
 */
#ifndef PROFLET_UNWIND_FILE_H
#define PROFLET_UNWIND_FILE_H

#include "agent/unwind/cache.h"

/* Reads segments and ids of a file; blocks as long as its file system does. Takes the fd (it may have O_PATH)
 * on success. 0 or -ENOMEM; a file that is not ELF has no segments. */
int unwind_file_new(struct unwind_file **ret, int fd, const struct stat *st, const char *path);
void unwind_file_free(struct unwind_file *f);

#endif
