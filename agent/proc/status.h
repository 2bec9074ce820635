// SPDX-License-Identifier: Apache-2.0
/*
 * Reads /proc/<pid>/status (proc_pid_status(5)): the pid of a process in its own namespace, and its users.
 * The parser is pure. Rank 1; may include base.
 */
#ifndef PROFLET_PROC_STATUS_H
#define PROFLET_PROC_STATUS_H

#include <stddef.h>
#include <stdint.h>

struct proc_status {
	uint32_t ns_pid;  /* its pid in its own, innermost PID namespace */
	uint32_t uids[4]; /* real, effective, saved, file system; in our user namespace */
};

/* Parses the content of a status file. 0; -EINVAL: a field is missing or not a number. */
int proc_status_parse(const char *text, size_t len, struct proc_status *ret);
/*
 * Reads the file of a process. 0; -ESRCH when it is gone, -EACCES or -EPERM without permission,
 * another -errno.
 */
int proc_status_read(int proc_fd, uint32_t pid, struct proc_status *ret);

#endif
