// SPDX-License-Identifier: Apache-2.0
/*
 * The memory that parser processes take for large files, all together: the kernel ends the agent, or one of
 * them, when the control group has no more. So processes for which there is no room wait for those that have
 * some, in order; small files need not wait. A process that sleeps, because its file system does not answer,
 * holds nobody up. Any thread.
 */
#ifndef PROFLET_PARSER_ROOM_H
#define PROFLET_PARSER_ROOM_H

#include <stdint.h>
#include <sys/types.h>

/* Zeroed, it has none. Embedded; it must not move while it has some. */
struct room {
	uint64_t bytes;
	pid_t pid; /* of the process that takes the memory */
	struct room *next;
};

/* The most that all have together, in bytes; 0: no limit. */
void room_limit(uint64_t bytes);
/* The size from which on a process has to wait: of what it takes, in bytes. */
uint64_t room_small(void);
/*
 * Waits until there is room for `bytes`, or none of those that have some gets on, or room_cancel. Before each
 * look, `wait` is called with the process that is waited for.
 */
void room_take(struct room *r, pid_t pid, uint64_t bytes, void (*wait)(pid_t holder));
void room_give(struct room *r);
/* How many have room, and how many wait for some. */
void room_count(unsigned *ret_holders, unsigned *ret_waiting);
/* Nobody waits any longer, until room_limit is called. */
void room_cancel(void);

#endif
