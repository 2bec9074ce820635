// SPDX-License-Identifier: Apache-2.0
/*
 * A pool of threads for work that may take long or block. A job is moved to the pool by worker_submit, run on
 * one of its threads, and moved back: `done` runs on the thread that calls worker_collect (the main loop,
 * when worker_fd is readable). The only shared mutable state between threads is in this file.
 *
 * A job may be stuck: reading from the file system of a dead server does not return and cannot be
 * interrupted. Its thread is replaced, up to a maximum; the job's memory belongs to the pool until it
 * returns, however late. A job is stuck if its thread sleeps in the kernel and uses no CPU time. A thread
 * that computes or waits for a CPU is late, however long that takes.
 */
#ifndef PROFLET_BASE_WORKER_H
#define PROFLET_BASE_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct worker;

/*
 * Embedded in the caller's job. The pool calls `run` on one of its threads, then `done`, with true for a job
 * that was cancelled before it ran.
 */
struct worker_job {
	struct worker_job *next;
	void (*run)(struct worker_job *job);
	void (*done)(struct worker_job *job, bool cancelled);
	/*
	 * Called by worker_check, at most once, for a job that is stuck, or has used WORKER_CPU_MAX_NS: then
	 * `costly` is true. `done` follows if it ever returns. May be NULL.
	 */
	void (*overdue)(struct worker_job *job);
	bool costly;
	bool urgent; /* runs urgently (urgency_job), because samples wait for it */
	int state;   /* worker.c's own */
};

#define WORKER_CPU_MAX_NS 4000000000ull /* of CPU time: files may claim to hold many gigabytes */

enum worker_priority { WORKER_HIGH, WORKER_LOW };

#define WORKER_STUCK_MAX 30u /* stuck threads that are replaced; with more of them the pool shrinks */

int worker_new(struct worker **ret, unsigned n_threads, size_t max_jobs, const char *thread_name);
/*
 * Cancels queued jobs (their done is called) and waits for the running ones for a limited time: stuck jobs
 * keep their threads and memory, and their done is never called. Returns the number of stuck jobs.
 */
unsigned worker_free(struct worker *w);
/*
 * Reserves n threads of the pool for jobs of high priority, so that these need not wait until one of low
 * priority has ended. One thread at least takes both. Call it before the first job.
 */
void worker_reserve(struct worker *w, unsigned n);
/* 0, or -ENOSPC when the queue is full: the job stays the caller's. */
int worker_submit(struct worker *w, struct worker_job *job, enum worker_priority priority);
/*
 * Waits for a submitted job. True: it has finished and belongs to the caller again; its done is not called.
 * False: it has not finished in time and will be collected as usual; its thread is replaced if it sleeps.
 */
bool worker_await(struct worker *w, struct worker_job *job, uint64_t timeout_ns);
/* Makes a submitted job urgent, and its thread if the calling one is. Not for a job that was handed back. */
void worker_urge(struct worker *w, struct worker_job *job);
/* Makes all threads urgent if the calling one is, which is about to wait for them until the process ends. */
void worker_hurry(struct worker *w);
int worker_fd(struct worker *w); /* readable while finished jobs wait; borrowed */
/*
 * Calls `done` of finished jobs, of a bounded number in one call: the descriptor stays readable if there are
 * more.
 */
void worker_collect(struct worker *w);
/*
 * Looks at the threads. Replaces those that have been blocked for more than `bound_ns`, and calls `overdue`
 * of their jobs. Call it periodically: a thread counts as blocked from the first of the looks between which
 * it has only slept.
 */
void worker_check(struct worker *w, uint64_t bound_ns);
/*
 * For how long the thread of a submitted job had been blocked at the last worker_check; 0 if it had not. For
 * a job that is still queued: for how long all threads of the pool had been.
 */
uint64_t worker_blocked_ns(struct worker *w, const struct worker_job *job);
/*
 * The calling thread waits for another process, which does its work: from now on, the CPU time and the state
 * of that process count as the thread's. 0: the thread works itself again. Does nothing on other threads.
 */
void worker_delegate(pid_t pid);
/*
 * Sets the function that makes such a process urgent, when the job of its thread becomes so. Any thread calls
 * it; it must not wait. Before the first pool.
 */
void worker_on_urge(void (*urge)(pid_t pid));
/* Jobs queued, running or waiting to be collected. */
size_t worker_pending(const struct worker *w);
/* Number of threads that are stuck now: asleep when a wait for their job timed out, or for too long. */
unsigned worker_stuck(struct worker *w);
/*
 * Collects until only stuck jobs are pending or timeout_ns has passed; waits a few ms for stuck ones. For
 * one-shot commands and tests.
 */
void worker_drain(struct worker *w, unsigned long timeout_ns);

#endif
