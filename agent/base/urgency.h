// SPDX-License-Identifier: Apache-2.0
/*
 * Urgent threads. On a busy node the control group of the agent may have so small a weight that its threads
 * wait for a CPU for seconds, while process events and samples fill buffers of bounded size, and processes
 * end before they are read. An urgent thread has a real-time policy (SCHED_RR), so it runs before all
 * ordinary threads of the host, whatever the weights. Kernels with CONFIG_RT_GROUP_SCHED refuse that policy
 * in control groups; there it is SCHED_DEADLINE, which needs CAP_SYS_NICE all the time.
 *
 * Ordinary threads of others have to stand that, so the CPU time of urgent threads is bounded: there is a
 * budget for each kind, which grows with time. A thread that has used it up is ordinary until there is some
 * again. The kernel helps, by RLIMIT_RTTIME or the parameters of SCHED_DEADLINE, in case a thread does not
 * come to check its budget.
 */
#ifndef PROFLET_BASE_URGENCY_H
#define PROFLET_BASE_URGENCY_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum urgency_kind {
	URGENCY_EVENTS,	 /* reading process events and samples: the main loop */
	URGENCY_READING, /* loading the BPF program; reading processes and files that samples wait for */
	URGENCY_KINDS,
};

struct urgency_stats {
	uint64_t cpu_ns[URGENCY_KINDS]; /* used by urgent threads */
	uint64_t ended; /* times that a thread became ordinary because the budget was used up */
};

/*
 * Allows urgent threads, which may use `share` (0.05 is 5 %) of the time of one CPU in all, and more until
 * urgency_started; 0: none. The calling thread, the main one, is urgent from then on. Raises RLIMIT_RTPRIO
 * and RLIMIT_NICE, so that most kernels need no capability later: call it while CAP_SYS_RESOURCE or
 * CAP_SYS_NICE is there. 0; -EPERM: no thread will be urgent.
 */
int urgency_allow(double share);
/* Changes the share. */
void urgency_set_share(double share);
/* Whether threads keep needing CAP_SYS_NICE to become urgent. */
bool urgency_needs_nice(void);
/* Whether the calling thread is urgent. */
bool urgency_is_on(void);
/* The start is over: from now on, no more than the share is used, and only for milliseconds at a time. */
void urgency_started(void);
/*
 * Accounts for the CPU time that the calling thread has used since its last check, and makes it urgent or
 * ordinary. Costs a look at a clock, and more every 4 ms: call it often, since a thread that is late
 * becomes urgent only here.
 */
void urgency_check(enum urgency_kind kind);
/*
 * Makes another thread urgent if the calling one is, which waits for it: one that it has just created, whose
 * first call is urgency_begin, or one that must end. It must exist.
 */
void urgency_give(pthread_t thread);
/* The calling thread may have been made urgent. */
void urgency_begin(void);
/*
 * The calling thread does a job: urgently whenever *urgent says so, which another thread may set (atomically)
 * while it runs. NULL: it does no job.
 */
void urgency_job(const bool *urgent);
/* Whether the calling thread is urgent, and so is a job that it has for another. */
bool urgency_of_job(const bool *urgent);
/* For the long loops of jobs: checks whether the job has become urgent. */
void urgency_point(void);
/* The process is about to end: all jobs are urgent, and there is as much as at the start once more. */
void urgency_ending(void);
/* Makes the calling thread ordinary. */
void urgency_end(void);
/* The calling thread is about to end: an urgent one remains so, because who joins it would have to wait. */
void urgency_leave(void);
/*
 * Makes another thread ordinary, which has been blocked for long: it needs no CPU, and what the kernel sets
 * aside for urgent threads is bounded. It becomes urgent again at a later check.
 */
void urgency_take_back(pid_t tid);
/*
 * How much CPU time, in µs, a process may use urgently that works for the calling thread; 0: the thread is
 * not urgent. What it has used is charged later.
 */
uint32_t urgency_allowance_us(void);
/*
 * Makes a process urgent that the calling thread waits for, if that thread is. One of another user needs
 * CAP_SYS_NICE.
 */
void urgency_give_process(pid_t pid);
void urgency_charge(uint64_t cpu_ns);
/* Gives a new child process, before execve, the limits that the agent had before urgency_allow. */
void urgency_restore_limits(void);
/*
 * Call first in a forked process that goes on to use this module: it is ordinary, and has a budget of its
 * own, as large as that of its parent was.
 */
void urgency_forked(void);
void urgency_stats(struct urgency_stats *ret);

#endif
