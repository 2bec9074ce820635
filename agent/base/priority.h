// SPDX-License-Identifier: Apache-2.0
/*
 * Scheduling priority. The agent does little work, but must do it soon, because a process may end within
 * milliseconds. Where the kernel refuses, nothing changes.
 */
#ifndef PROFLET_PRIORITY_H
#define PROFLET_PRIORITY_H

#include <stdint.h>
#include <sys/types.h>

/* Raises the priority of the calling thread (nice -5; needs RLIMIT_NICE or CAP_SYS_NICE). */
void priority_raise(void);
/*
 * Requests short time slices for the calling thread, so that it runs sooner (Linux 6.12). Needs
 * no permission.
 */
void priority_short_slices(void);
/*
 * Gives a thread (0: the calling one) the real-time policy SCHED_RR with this priority, from 1 on; threads
 * that it creates do not inherit it. See urgency.h, which bounds the use. Needs RLIMIT_RTPRIO or
 * CAP_SYS_NICE. 0 or -errno.
 */
int priority_set_urgent(pid_t tid, int level);
/*
 * The same with SCHED_DEADLINE: it runs before all others for runtime_ns of each period, and not at all for
 * the remainder. Needs CAP_SYS_NICE, and that the thread may run on all CPUs. 0 or -errno; -EBUSY: other
 * threads have such rights to most of the CPU time.
 */
int priority_set_deadline(pid_t tid, uint64_t runtime_ns, uint64_t period_ns);
/* Takes either back; tid 0: from the calling thread. A signal handler may call it for other threads. */
void priority_set_ordinary(pid_t tid);
/*
 * Raises the priority of the process's session (nice -10; needs CAP_SYS_NICE), for kernels that weigh
 * sessions against each other whatever the priorities of their threads (sched_autogroup): without it, tables
 * are built late while every session computes. Only if the process leads its session (setsid): the session of
 * a shell has other programs, which must not be favoured. Containers are weighed by their control groups
 * instead. Returns the value for priority_session_restore.
 */
int priority_session_raise(void);
void priority_session_restore(int nice);

#endif
