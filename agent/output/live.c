// SPDX-License-Identifier: Apache-2.0
#include "agent/output/live_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"

#define MAX_DELTAS (1u << 20) /* of all intervals; past it the window becomes shorter */

static struct live_interval *current(struct output_live *l)
{
	return &l->intervals[l->n_intervals - 1];
}

static int delta_add(struct output_live *l, struct live_entry *e)
{
	struct live_interval *i = current(l);

	if (i->n == i->cap) {
		size_t cap = i->cap ? i->cap * 2 : 64;
		struct live_delta *more = reallocarray(i->deltas, cap, sizeof *more);

		if (!more)
			return -ENOMEM;
		i->deltas = more;
		i->cap = cap;
	}
	e->interval = l->interval;
	e->at = i->n;
	i->deltas[i->n++] = (struct live_delta){.entry = e};
	l->n_deltas++;
	return 0;
}

static void add_to(struct live_count *c, uint64_t self, uint64_t total)
{
	c->self += self;
	c->total += total;
}

static int count(struct output_live *l, struct live_entry *e, uint64_t self, uint64_t total)
{
	if (e->interval != l->interval && delta_add(l, e) < 0)
		return -ENOMEM;
	add_to(&current(l)->deltas[e->at].count, self, total);
	add_to(&e->window, self, total);
	add_to(&e->ever, self, total);
	return 0;
}

static int count_frames(struct output_live *l, const struct output_stack *s, struct live_function **ret_leaf)
{
	static const struct frame none = {.function = "[no frames]", .kind = FRAME_ENDING};
	size_t n = s->n_frames ? s->n_frames : 1;
	int r = 0;

	l->stack++;
	for (size_t i = 0; i < n && r == 0; i++) {
		struct live_function *f = live_function_of(l, s->n_frames ? &s->frames[i] : &none);

		if (i == 0)
			*ret_leaf = f;
		if (f->entry.stack != l->stack)
			r = count(l, &f->entry, i == 0 ? s->count : 0, s->count);
		f->entry.stack = l->stack;
	}
	return r;
}

void output_live_add(struct output_live *l, const struct output_stack *s)
{
	struct live_process *p = live_process_of(l, s);
	struct live_function *leaf = NULL;
	struct live_cell *c;

	if (!s->count)
		return;
	current(l)->samples += s->count;
	current(l)->incomplete += s->complete ? 0 : s->count;
	l->window.samples += s->count;
	l->window.incomplete += s->complete ? 0 : s->count;
	l->ever.samples += s->count;
	l->ever.incomplete += s->complete ? 0 : s->count;
	if (count(l, &p->entry, s->count, s->count) < 0 || count_frames(l, s, &leaf) < 0 ||
	    p == l->other_process || leaf == l->other_function)
		l->ever.merged += s->count;
	c = leaf ? live_cell_of(l, p, leaf) : NULL;
	if (c)
		(void)count(l, &c->entry, s->count, s->count);
}

/* The first of the intervals leaves the window. */
static void forget_interval(struct output_live *l)
{
	struct live_interval *i = &l->intervals[0];

	for (size_t d = 0; d < i->n; d++) {
		struct live_entry *e = i->deltas[d].entry;

		e->window.self -= i->deltas[d].count.self;
		e->window.total -= i->deltas[d].count.total;
	}
	l->n_deltas -= i->n;
	l->window.samples -= i->samples;
	l->window.incomplete -= i->incomplete;
	l->window.duration_ns -= i->ns;
	l->window.arrived -= i->arrived;
	free(i->deltas);
	l->n_intervals--;
	memmove(l->intervals, l->intervals + 1, l->n_intervals * sizeof *l->intervals);
}

/* Where memory is short the interval under way goes on. */
static void begin_interval(struct output_live *l)
{
	if (l->n_intervals == l->cap_intervals) {
		size_t cap = l->cap_intervals ? l->cap_intervals * 2 : 16;
		struct live_interval *more = reallocarray(l->intervals, cap, sizeof *more);

		if (!more)
			return;
		l->intervals = more;
		l->cap_intervals = cap;
	}
	l->intervals[l->n_intervals++] = (struct live_interval){0};
	l->interval++;
}

void output_live_tick(struct output_live *l, uint64_t interval_ns, uint64_t arrived)
{
	current(l)->ns += interval_ns;
	current(l)->arrived += arrived;
	l->window.arrived += arrived;
	l->ever.arrived += arrived;
	l->window.duration_ns += interval_ns;
	l->ever.duration_ns += interval_ns;
	/* ticks do not come to the nanosecond */
	while (l->n_intervals > 1 &&
	       (l->n_deltas > MAX_DELTAS ||
		l->window.duration_ns - l->intervals[0].ns + interval_ns / 2 >= l->window_ns))
		forget_interval(l);
	live_sweep(l);
	begin_interval(l);
}

/* Those that ran in the window, or that are known of. */
static size_t count_processes(const struct output_live *l, bool since_start)
{
	struct map_node *node;
	size_t n = 0;

	map_for_each (&l->processes, node, i) {
		const struct live_entry *e = container_of(node, struct live_entry, node);

		n += since_start || e->window.self > 0;
	}
	return n;
}

void output_live_sums(const struct output_live *l, bool since_start, struct output_live_sums *ret)
{
	*ret = l->ever;
	if (!since_start) {
		ret->samples = l->window.samples;
		ret->incomplete = l->window.incomplete;
		ret->duration_ns = l->window.duration_ns;
		ret->arrived = l->window.arrived;
	}
	ret->n_processes = count_processes(l, since_start);
}

int output_live_new(struct output_live **ret, const struct output_live_options *options)
{
	struct output_live *l = calloc(1, sizeof *l);
	int r;

	if (!l)
		return -ENOMEM;
	l->window_ns = options->window_ns;
	r = live_store_init(l, options);
	begin_interval(l);
	if (r < 0 || !l->n_intervals) {
		output_live_free(l);
		return -ENOMEM;
	}
	*ret = l;
	return 0;
}

void output_live_free(struct output_live *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->n_intervals; i++)
		free(l->intervals[i].deltas);
	free(l->intervals);
	live_store_fini(l);
	free(l);
}
