// SPDX-License-Identifier: Apache-2.0
#include "agent/priority.h"

#include <sched.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NICE (-5)
#define SLICE_NS 100000u /* the least there is */

/* sched_setattr(2): linux/sched/types.h cannot be included beside older C libraries' sched.h. */
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

void priority_short_slices(void)
{
	struct attributes a;

	if (syscall(SYS_sched_getattr, 0, &a, sizeof a, 0) < 0 || a.policy != SCHED_OTHER)
		return;
	a.runtime = SLICE_NS;
	(void)syscall(SYS_sched_setattr, 0, &a, 0);
}
