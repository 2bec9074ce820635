// SPDX-License-Identifier: Apache-2.0
/*
 * Which capabilities `run` keeps. Before it starts it gives up all that starting does not need; once it
 * samples, all that its work does not need. Threads that read files or talk to servers keep fewer still.
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
	uint64_t held;	       /* by the process as it was started */
	uint64_t start;	       /* of these, needed until it samples */
	uint64_t kept;	       /* needed after that, by the main thread */
	uint64_t of_thread[2]; /* needed by each enum thread_kind; THREAD_NETWORK: of the delivery process */
};

/* Determines which of the capabilities that the view shows are needed. Pure. */
void privileges_of(const struct check_view *view, const struct config *config, struct privileges *ret);
/* Adds what urgent threads need all the time on some kernels (urgency_needs_nice). */
void privileges_keep_nice(struct privileges *p);
/*
 * Appends "BPF, PERFMON" or "none". Those without a known name are counted: "BPF and 3 others". 0 or -ENOMEM.
 */
int privileges_format(uint64_t set, struct buf *b);

/*
 * Gives up for good what the start does not need: in the permitted, inheritable, ambient and bounding sets,
 * and execve gains no new privileges. Call while there is one thread; threads created later give up more when
 * they begin. 0, or -errno: nothing is given up then.
 */
int privileges_limit(const struct privileges *p);
/* Gives up what only the start needed, for the calling thread. 0 or -errno. */
int privileges_settle(const struct privileges *p);

#endif
