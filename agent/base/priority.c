// SPDX-License-Identifier: Apache-2.0
#include "agent/base/priority.h"

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/base/cleanup.h"

#define NICE (-5)
#define SESSION_NICE (-10)
#define SESSION_FILE "/proc/self/autogroup"
#define SLICE_NS 100000u /* the minimum */

/* sched_setattr(2): linux/sched/types.h conflicts with sched.h of older C libraries. */
struct attributes {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

#ifndef SCHED_DEADLINE /* sched.h of glibc before 2.41 */
#define SCHED_DEADLINE 6
#endif
#define RESET_ON_FORK 1u /* SCHED_FLAG_RESET_ON_FORK */

_Static_assert(sizeof(struct attributes) == 48, "version 0 of struct sched_attr");

void priority_raise(void)
{
	(void)setpriority(PRIO_PROCESS, 0, NICE);
}

static int session_nice(void)
{
	_cleanup_fclose_ FILE *f = fopen(SESSION_FILE, "re");
	int nice;

	return f && fscanf(f, "/autogroup-%*d nice %d", &nice) == 1 ? nice : SESSION_NICE;
}

static void session_set(int nice)
{
	_cleanup_fclose_ FILE *f = fopen(SESSION_FILE, "we");

	if (f)
		fprintf(f, "%d", nice);
}

int priority_session_raise(void)
{
	int nice = getsid(0) == getpid() ? session_nice() : SESSION_NICE;

	if (nice > SESSION_NICE)
		session_set(SESSION_NICE);
	return nice;
}

void priority_session_restore(int nice)
{
	if (nice > SESSION_NICE)
		session_set(nice);
}

static _Thread_local uint64_t slice_ns; /* 0: the default */

void priority_short_slices(void)
{
	struct attributes a;

	slice_ns = SLICE_NS;
	if (syscall(SYS_sched_getattr, 0, &a, sizeof a, 0) < 0 || a.policy != SCHED_OTHER)
		return;
	a.runtime = slice_ns;
	(void)syscall(SYS_sched_setattr, 0, &a, 0);
}

int priority_set_urgent(pid_t tid, int level)
{
	struct attributes a = {
		.size = sizeof a, .policy = SCHED_RR, .flags = RESET_ON_FORK, .priority = (uint32_t)level};

	return syscall(SYS_sched_setattr, tid, &a, 0) < 0 ? -errno : 0;
}

int priority_set_deadline(pid_t tid, uint64_t runtime_ns, uint64_t period_ns)
{
	struct attributes a = {
		.size = sizeof a,
		.policy = SCHED_DEADLINE,
		.flags = RESET_ON_FORK, /* without it, the thread could not create others */
		.runtime = runtime_ns,
		.deadline = period_ns,
		.period = period_ns,
	};

	return syscall(SYS_sched_setattr, tid, &a, 0) < 0 ? -errno : 0;
}

void priority_set_ordinary(pid_t tid)
{
	struct attributes a = {
		.size = sizeof a,
		.policy = SCHED_OTHER,
		.flags = RESET_ON_FORK, /* clearing it would need CAP_SYS_NICE */
		.nice = getpriority(PRIO_PROCESS, (id_t)tid),
		.runtime = tid ? 0 : slice_ns,
	};

	(void)syscall(SYS_sched_setattr, tid, &a, 0);
}
