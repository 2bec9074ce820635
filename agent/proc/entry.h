// SPDX-License-Identifier: Apache-2.0
/*
 * Opens files below /proc/<pid> so that callers can tell an ended process from a missing file. The other
 * readers of this folder use it. Rank 1; may include base. Owns nothing.
 *
 * In this folder, `proc_fd` is always a directory descriptor of a procfs root, owned by the caller.
 */
#ifndef PROFLET_PROC_ENTRY_H
#define PROFLET_PROC_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Opens <pid>/<name> (O_CLOEXEC is added). Returns a descriptor owned by the caller. -ESRCH: no such process;
 * -ENOENT: the process lives and has no such file; -EACCES or -EPERM: no permission; else -errno.
 */
int proc_entry_open(int proc_fd, uint32_t pid, const char *name, int flags);

/* Reads at most `size` bytes of <pid>/<name>. Returns the number of bytes. Errors as of proc_entry_open. */
ssize_t proc_entry_read(int proc_fd, uint32_t pid, const char *name, void *buf, size_t size);

/*
 * Converts the error of an access to <pid>/…: -error, or -ESRCH if the process is gone. The kernel itself
 * then says ENOENT, or EACCES if the process ended during the lookup of a link.
 */
int proc_entry_error(int proc_fd, uint32_t pid, int error);
/* Whether no process has that pid now. */
bool proc_entry_gone(int proc_fd, uint32_t pid);

/* As read(2), repeated after a signal. Returns the number of bytes, 0 at the end, or -errno. */
ssize_t proc_read(int fd, void *buf, size_t size);

#endif
