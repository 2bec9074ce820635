// SPDX-License-Identifier: Apache-2.0
/* The command that `record` starts: forked early, so that its pid is known, executed when sampling runs.
 * Rank 3. */
#ifndef PROFLET_RECORD_CHILD_H
#define PROFLET_RECORD_CHILD_H

#include <stdint.h>
#include <sys/types.h>

struct record_child {
	pid_t pid;  /* 0: none */
	int go_fd;  /* owned; closing it lets the child end without executing */
	int pid_fd; /* owned; readable when the child has ended */
};

#define RECORD_CHILD_NONE ((struct record_child){0, -1, -1})

/* Forks a child that waits. argv ends with NULL. 0 or -errno. */
int record_child_fork(struct record_child *ret, char **argv);
/* Lets it execute. 0, or -errno of execve. */
int record_child_go(struct record_child *c);
/* Waits for its end (asks for it with SIGTERM first if it still runs) and closes everything. Its wait status.
 */
int record_child_end(struct record_child *c);

#endif
