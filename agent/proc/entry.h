// SPDX-License-Identifier: Apache-2.0
/*
 * Files below /proc/<pid>, opened so that "the process is gone" and "this file is not there" stay apart. The
 * other readers of this folder build on it. Rank 1; may include base. Owns nothing.
 *
 * `proc_fd` is, here and everywhere in this folder, a directory descriptor of a procfs root, the caller's.
 */
#ifndef PROFLET_PROC_ENTRY_H
#define PROFLET_PROC_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Opens <pid>/<name> (O_CLOEXEC is added) and returns the descriptor, the caller's. -ESRCH: no such process;
 * -ENOENT: the process lives and has no such file; -EACCES or -EPERM: it may not be read; else -errno.
 */
int proc_entry_open(int proc_fd, uint32_t pid, const char *name, int flags);

/* Reads at most `size` bytes of <pid>/<name> and returns how many. Errors as proc_entry_open. */
ssize_t proc_entry_read(int proc_fd, uint32_t pid, const char *name, void *buf, size_t size);

/*
 * What a failed access to <pid>/… means: -error, but -ESRCH when the process is gone. The kernel itself says
 * ENOENT then, or EACCES when the process went in the middle of a link's lookup.
 */
int proc_entry_error(int proc_fd, uint32_t pid, int error);
/* No process of that pid is there now. */
bool proc_entry_gone(int proc_fd, uint32_t pid);

/* read(2), again after a signal. Returns bytes, 0 at the end, or -errno. */
ssize_t proc_read(int fd, void *buf, size_t size);

#endif
