// SPDX-License-Identifier: Apache-2.0
/* Which processes and threads a procfs shows. Rank 1; may include base. Owns nothing. */
#ifndef PROFLET_PROC_SCAN_H
#define PROFLET_PROC_SCAN_H

#include <stdint.h>

/* `id` is a pid or a tid. Returns < 0 to stop. */
typedef int (*proc_scan_fn)(uint32_t id, void *data);

/*
 * Calls fn for each process, ascending. The list is taken first, so fn may open and close what it likes; a
 * process may be gone when its turn comes, and one that starts meanwhile is not seen. 0, fn's own negative
 * value, -ENOMEM, or -errno.
 */
int proc_scan(int proc_fd, proc_scan_fn fn, void *data);

/*
 * Calls fn for each thread of the process, the main one included, in the kernel's order and while reading:
 * stopping early is cheap. 0, fn's own negative value, -ESRCH when the process is gone (fn may have been
 * called), -ENOENT when it has no task directory (never on Linux), or -errno.
 */
int proc_scan_threads(int proc_fd, uint32_t pid, proc_scan_fn fn, void *data);

#endif
