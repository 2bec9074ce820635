// SPDX-License-Identifier: Apache-2.0
/*
 * A pool of threads for work that may take long or block. A job is moved to the pool by worker_submit, run on
 * one of its threads, and moved back: `done` runs on the thread that calls worker_collect (the main loop,
 * when worker_fd is readable). The only shared mutable state between threads is in this file. Rank 0.
 *
 * A job may be stuck: a read of a dead server's file system does not come back, and cannot be called back.
 * Its thread is replaced, up to a maximum; its memory stays the pool's until it is back, however late.
 */
#ifndef PROFLET_BASE_WORKER_H
#define PROFLET_BASE_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct worker;

/* Embedded in the caller's job. `run` on a pool thread; `done(job, true)` when it was dropped unrun at stop.
 */
struct worker_job {
	struct worker_job *next;
	void (*run)(struct worker_job *job);
	void (*done)(struct worker_job *job, bool cancelled);
	/* From worker_check, at most once, for one that has run too long; `done` follows when it is back, if
	 * ever. NULL: nobody wants to know. */
	void (*overdue)(struct worker_job *job);
	int state; /* worker.c's own */
};

enum worker_priority { WORKER_HIGH, WORKER_LOW };

#define WORKER_STUCK_MAX                                                                  \
	30u /* threads that are replaced while they are stuck; more of them stop the pool \
	     */

int worker_new(struct worker **ret, unsigned n_threads, size_t max_jobs, const char *thread_name);
/*
 * Cancels queued jobs (their done is called) and waits for the running ones, but not long: those that are
 * stuck keep their threads and memory, and their done is never called. Returns how many.
 */
unsigned worker_free(struct worker *w);
/* 0, or -ENOSPC when the queue is full: the job stays the caller's. */
int worker_submit(struct worker *w, struct worker_job *job, enum worker_priority priority);
/*
 * Waits for a job that was submitted. True: it is back, the caller's, and its done is not called. False: it
 * is not back yet and goes the usual way; its thread is replaced.
 */
bool worker_await(struct worker *w, struct worker_job *job, uint64_t timeout_ns);
int worker_fd(struct worker *w); /* readable while finished jobs wait; borrowed */
void worker_collect(struct worker *w);
/* Replaces the threads of jobs that have run for `bound_ns` and calls their overdue. Call now and then. */
void worker_check(struct worker *w, uint64_t bound_ns);
/* Jobs queued, running or waiting to be collected. */
size_t worker_pending(const struct worker *w);
/* Threads that are stuck now: their job was awaited in vain or has run too long. */
unsigned worker_stuck(struct worker *w);
/* Blocks until nothing but what is stuck is pending or timeout_ns passed, collecting meanwhile. For one-shot
 * commands and tests. */
void worker_drain(struct worker *w, unsigned long timeout_ns);

#endif
