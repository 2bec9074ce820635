// SPDX-License-Identifier: Apache-2.0
/* The mappings that processes had before (agent/proc/history.h): samples are completed with those of their
 * time. */
#include "agent/proc/history.h"
#include "agent/track/track_private.h"

struct remembering {
	struct track *t;
	struct process *p;
};

/* A list is given back with the mappings that it was made of: the program must not have it any more. */
static void before_forgotten(const struct proc_maps *m, void *data)
{
	struct remembering *r = data;

	if (m->published_ref && m->published_ref == r->p->published_ref)
		publisher_remove(r->t->publisher, r->p);
}

void track_remember(struct track *t, struct process *p, uint64_t until_ns)
{
	struct remembering r = {t, p};

	if (p->maps->n)
		(void)proc_history_add(p, until_ns, publisher_generation(t->publisher), before_forgotten, &r);
}

void track_history_tend(struct track *t, struct process *p, uint64_t now_ns)
{
	proc_history_forget(p, now_ns > HISTORY_KEEP_NS ? now_ns - HISTORY_KEEP_NS : 0);
	if (!p->keep_stack || now_ns < p->keep_stack_until_ns)
		return;
	p->keep_stack = false;
	track_mark_dirty(t, p->pid);
}
