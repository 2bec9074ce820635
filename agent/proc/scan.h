// SPDX-License-Identifier: Apache-2.0
/* Lists the processes and threads of a procfs. Rank 1; may include base. Owns nothing. */
#ifndef PROFLET_PROC_SCAN_H
#define PROFLET_PROC_SCAN_H

#include <stdint.h>

/* Called with a pid or tid. < 0 stops the listing. */
typedef int (*proc_scan_fn)(uint32_t id, void *data);

/*
 * Calls fn for each process, ascending. The list is read first, so fn may open and close files; a process may
 * be gone when fn is called, and one that starts meanwhile is not listed. 0, fn's negative result, -ENOMEM,
 * or -errno.
 */
int proc_scan(int proc_fd, proc_scan_fn fn, void *data);

/*
 * Calls fn for each thread of the process, including the main one, in the kernel's order and while the list
 * is read, so stopping early is cheap. 0, fn's negative result, -ESRCH when the process is gone (fn may have
 * been called), -ENOENT when it has no task directory (never on Linux), or -errno.
 */
int proc_scan_threads(int proc_fd, uint32_t pid, proc_scan_fn fn, void *data);

#endif
