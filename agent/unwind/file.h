// SPDX-License-Identifier: Apache-2.0
/* One file of the cache: made from an open descriptor, its strings and segments owned. Inside unwind/ only.
 */
#ifndef PROFLET_UNWIND_FILE_H
#define PROFLET_UNWIND_FILE_H

#include "agent/unwind/cache.h"

/* Reads segments and ids of a file of `size` bytes. Takes the fd on success. 0 or -ENOMEM; a file that is not
 * ELF has no segments. */
int unwind_file_new(struct unwind_file **ret, int fd, const char *path, uint64_t size);
void unwind_file_free(struct unwind_file *f);

#endif
