// SPDX-License-Identifier: Apache-2.0
/*
 * Names of threads, by time: tids are reused, and a thread sets its name after it has begun. Main threads are
 * not included: they have the name of their process (agent/proc/image.h). Rank 1; bounded.
 */
#ifndef PROFLET_PROC_THREADS_H
#define PROFLET_PROC_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/proc/stat.h"

struct proc_threads;

/* At most `max` tids, and as many former names. 0 or -ENOMEM. */
int proc_threads_new(struct proc_threads **ret, size_t max);
void proc_threads_free(struct proc_threads *t); /* NULL is fine */
/*
 * Sets the thread's name from `since_ns` on. At the maximum of tids the thread remains unknown (counted); at
 * that of former names the tid's oldest one is forgotten.
 */
void proc_threads_set(struct proc_threads *t, uint32_t pid, uint32_t tid, uint64_t since_ns,
		      const char *name);
void proc_threads_end(struct proc_threads *t, uint32_t tid, uint64_t time_ns);
/* Ends all threads of a process. */
void proc_threads_end_all(struct proc_threads *t, uint32_t pid, uint64_t time_ns);
/* Whether the tid is a known thread of that process. */
bool proc_threads_known(const struct proc_threads *t, uint32_t pid, uint32_t tid);
/* Gets the thread's name at that time. False: it is unknown, and *ret is unchanged. */
bool proc_threads_at(const struct proc_threads *t, uint32_t pid, uint32_t tid, uint64_t time_ns,
		     char ret[PROC_TASK_COMM_LEN]);
/* Forgets threads that ended, and names that were replaced, before `time_ns`. */
void proc_threads_forget(struct proc_threads *t, uint64_t time_ns);
/* Forgets every thread that has not ended: events of it may have been lost. */
void proc_threads_forget_running(struct proc_threads *t);
size_t proc_threads_len(const struct proc_threads *t);
uint64_t proc_threads_full(const struct proc_threads *t); /* tids refused because of the maximum */

#endif
