// SPDX-License-Identifier: Apache-2.0
/*
 * Stacks that are not final as they come from the BPF program: those that ended for want of a process,
 * mapping or table, and those that were walked with a list of mappings that did not hold any more
 * (agent/proc/history.h).
 *
 * What was walked with an outdated list holds up to the first frame that lies where something has changed.
 * Where the sample brought its registers and stack along from the start, it is walked again with the mappings
 * of its time; if not, it is cut there, and says so.
 */
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/proc/history.h"
#include "agent/track/track_private.h"
#include "agent/unwind/finish.h"
#include "agent/unwind/outdated.h"

/*
 * A list that holds for the mappings: the published one, or one of our own. Nobody publishes those of a
 * process that is over again when tables come. 0: they are none.
 */
static uint32_t list_for(struct track *t, const struct process *p, const struct sample_view *v,
			 const struct proc_maps *maps)
{
	if (maps == p->maps && maps->published_ref && !maps->dirty && !p->end_ns)
		return maps->published_ref;
	return finisher_list(t->finisher, v, maps, t->tables);
}

/* Cuts the stack where it does not hold. False: it does. */
static bool cut(struct track *t, const struct sample_view *v, const struct proc_maps *used,
		const struct proc_maps *right, struct sample_view *ret)
{
	uint64_t next = 0;
	int n = 0;

	if (used && right)
		n = unwind_outdated_frames(t->tables, used, right, v->frames + v->n_kernel, v->n_user, &next);
	if (n == v->n_user)
		return false;
	finisher_cut(t->finisher, v, n < 0 ? 0 : (uint16_t)n, next, ret);
	t->stats.outdated_cut++;
	return true;
}

static bool walk_again(struct track *t, const struct process *p, const struct sample_view *v,
		       const struct proc_maps *right, struct sample_view *ret)
{
	struct sample_view start = *v;
	uint32_t list = list_for(t, p, v, right);

	if (!list)
		return right != p->maps; /* what was mapped then is known, and is nothing */
	start.n_user = 0;
	start.ending = ENDING_NO_PROCESS;
	return finisher_walk(t->finisher, &start, list, ret);
}

static bool finishable(enum unwind_ending e)
{
	return e == ENDING_NO_PROCESS || e == ENDING_NO_MAPPING || e == ENDING_NO_TABLE ||
	       e == ENDING_UNSUPPORTED_RULE;
}

bool track_wants_finish(const struct process *p, const struct sample_view *v)
{
	const struct proc_maps *used;

	if (v->generation && proc_history_outdated(p, v->time_ns, v->generation, &used))
		return true;
	return v->saved && (!v->from_start || finishable(v->ending));
}

bool track_finish(struct track *t, const struct process *p, const struct sample_view *v,
		  struct sample_view *ret)
{
	const struct proc_maps *right = proc_history_at(p, v->time_ns), *used;
	bool outdated = v->generation && proc_history_outdated(p, v->time_ns, v->generation, &used), final;
	uint32_t list;

	*ret = *v;
	ret->saved = NULL;
	ret->stack = NULL;
	if (outdated && !(right && v->saved && v->from_start)) {
		if (cut(t, v, used, right, ret) || !v->saved)
			return true;
	}
	if (!right || !v->saved) /* the mappings of that time are forgotten */
		return true;
	if (v->from_start) {
		final = walk_again(t, p, v, right, ret);
		/* the stack that came along may be shorter than the one that the program walked */
		if (!outdated && ret->n_user <= v->n_user && !unwind_ending_complete(ret->ending)) {
			*ret = *v;
			ret->saved = NULL;
			ret->stack = NULL;
		}
		t->stats.outdated_again += outdated && final;
		return final;
	}
	list = list_for(t, p, v, right);
	return list ? finisher_walk(t->finisher, v, list, ret) : right != p->maps;
}

/* --- what history there is */

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
