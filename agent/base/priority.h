// SPDX-License-Identifier: Apache-2.0
/*
 * What the agent asks of the scheduler: little work, but it must come soon, for a process may be gone in
 * milliseconds. Where the kernel refuses, all stays as it is. Rank 3.
 */
#ifndef PROFLET_PRIORITY_H
#define PROFLET_PRIORITY_H

/* The calling thread, and those that it starts from now on, go before ordinary ones (nice -5; CAP_SYS_NICE).
 */
void priority_raise(void);
/* The calling thread gets the CPU for short times, and therefore sooner (Linux 6.12; no permission needed).
 */
void priority_short_slices(void);
/*
 * This session among the others, where the kernel weighs them against each other whatever their threads'
 * priorities are (sched_autogroup): nice -10 (CAP_SYS_NICE), so that tables come although every session
 * computes. Only where we lead it (setsid): a shell's has other programs, which are not to be favoured. A
 * container is weighed by its control group instead. Returns what priority_session_restore takes.
 */
int priority_session_raise(void);
void priority_session_restore(int nice);

#endif
