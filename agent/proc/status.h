// SPDX-License-Identifier: Apache-2.0
/*
 * /proc/<pid>/status (proc_pid_status(5)): who a process is to itself, and whose. The parser is pure. Rank 1;
 * may include base.
 */
#ifndef PROFLET_PROC_STATUS_H
#define PROFLET_PROC_STATUS_H

#include <stddef.h>
#include <stdint.h>

struct proc_status {
	uint32_t ns_pid;  /* its pid in its own, innermost PID namespace */
	uint32_t uids[4]; /* real, effective, saved, of the file system; in our user namespace */
};

/* The content of a status file. 0, or -EINVAL: a field is missing or no number. */
int proc_status_parse(const char *text, size_t len, struct proc_status *ret);
/* 0; -ESRCH when the process is gone, -EACCES or -EPERM where it may not be read, another -errno. */
int proc_status_read(int proc_fd, uint32_t pid, struct proc_status *ret);

#endif
