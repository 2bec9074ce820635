// SPDX-License-Identifier: Apache-2.0
/*
 * The capabilities that `run` holds: from its first line on no more than its start takes, and once it samples
 * no more than its work takes; a thread that reads files, or talks to a server, less still. Rank 3.
 */
#ifndef PROFLET_PRIVILEGES_H
#define PROFLET_PRIVILEGES_H

#include <stdint.h>

#include "agent/base/buf.h"
#include "agent/base/thread.h"

struct check_view;
struct config;

/* Sets of capabilities: bit n is number n of linux/capability.h. */
struct privileges {
	uint64_t held;	/* by the process as it was started */
	uint64_t start; /* of these, needed until it samples */
	uint64_t kept;	/* needed after that, by the main thread */
	uint64_t of_thread[2];
};

/* What of the capabilities that the view shows is needed. Pure. */
void privileges_of(const struct check_view *view, const struct config *config, struct privileges *ret);
/* "BPF, PERFMON"; "none". Those that are not known by name are counted: "BPF and 3 others". 0 or -ENOMEM. */
int privileges_format(uint64_t set, struct buf *b);

/*
 * Gives up what the start does not take, for good: permitted, inheritable, ambient and bounding set, and no
 * new privileges by execve. While there is one thread; later ones give up more. 0 or -errno: nothing is
 * given up then.
 */
int privileges_limit(const struct privileges *p);
/* The start is over. The calling thread's. 0 or -errno. */
int privileges_settle(const struct privileges *p);

#endif
