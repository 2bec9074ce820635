// SPDX-License-Identifier: Apache-2.0
#include "agent/base/priority.h"

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

void priority_short_slices(void)
{
	struct attributes a;

	if (syscall(SYS_sched_getattr, 0, &a, sizeof a, 0) < 0 || a.policy != SCHED_OTHER)
		return;
	a.runtime = SLICE_NS;
	(void)syscall(SYS_sched_setattr, 0, &a, 0);
}
