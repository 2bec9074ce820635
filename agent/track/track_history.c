// SPDX-License-Identifier: Apache-2.0
/* The mappings that processes had before (agent/proc/history.h): samples are completed with those of their
 * time. */
#include "agent/proc/history.h"
#include "agent/track/track_private.h"

void track_remember(struct track *t, struct process *p, uint64_t until_ns)
{
	if (p->maps->n)
		(void)proc_history_add(p, until_ns, publisher_generation(t->publisher));
}

void track_history_tend(struct track *t, struct process *p, uint64_t now_ns)
{
	proc_history_forget(p, now_ns > HISTORY_KEEP_NS ? now_ns - HISTORY_KEEP_NS : 0);
	if (!p->keep_stack || now_ns < p->keep_stack_until_ns)
		return;
	p->keep_stack = false;
	track_mark_dirty(t, p->pid);
}
