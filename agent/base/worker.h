// SPDX-License-Identifier: Apache-2.0
/*
 * A pool of threads with a bounded queue of jobs in two priorities. A job is moved to the pool, run on one of
 * its threads, and moved back: `done` runs on the thread that calls worker_collect (the main loop, when
 * worker_fd is readable). The only shared mutable state between threads is in this file. Rank 0.
 */
#ifndef PROFLET_BASE_WORKER_H
#define PROFLET_BASE_WORKER_H

#include <stdbool.h>
#include <stddef.h>

struct worker;

/* Embedded in the caller's job. `run` on a pool thread; `done(job, true)` when it was dropped unrun at stop.
 */
struct worker_job {
	struct worker_job *next;
	void (*run)(struct worker_job *job);
	void (*done)(struct worker_job *job, bool cancelled);
};

enum worker_priority { WORKER_HIGH, WORKER_LOW };

int worker_new(struct worker **ret, unsigned n_threads, size_t max_jobs, const char *thread_name);
/* Waits for running jobs, cancels queued ones (their done is called), joins the threads. */
void worker_free(struct worker *w);
/* 0, or -ENOSPC when the queue is full: the job stays the caller's. */
int worker_submit(struct worker *w, struct worker_job *job, enum worker_priority priority);
int worker_fd(struct worker *w); /* readable while finished jobs wait; borrowed */
void worker_collect(struct worker *w);
/* Jobs queued, running or waiting to be collected. */
size_t worker_pending(const struct worker *w);
/* Blocks until nothing is pending or timeout_ns passed, collecting meanwhile. For one-shot commands and
 * tests. */
void worker_drain(struct worker *w, unsigned long timeout_ns);

#endif
