// SPDX-License-Identifier: Apache-2.0
/*
 * The command that `record` starts: forked early, so that its pid is known, and executed when sampling runs.
 */
#ifndef PROFLET_RECORD_CHILD_H
#define PROFLET_RECORD_CHILD_H

#include <stdint.h>
#include <sys/types.h>

struct record_child {
	pid_t pid;  /* 0: none */
	int go_fd;  /* owned; if it is closed, the child ends without executing */
	int pid_fd; /* owned; readable when the child has ended */
};

#define RECORD_CHILD_NONE ((struct record_child){0, -1, -1})

/* Forks a child that waits. argv ends with NULL. 0 or -errno. */
int record_child_fork(struct record_child *ret, char **argv);
/* Lets the child execute the command. 0, or -errno of execve. */
int record_child_go(struct record_child *c);
/* Ends the child with SIGTERM if it still runs, waits for its end and closes everything. Returns its wait
 * status. */
int record_child_end(struct record_child *c);

#endif
