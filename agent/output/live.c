// SPDX-License-Identifier: Apache-2.0
/* Counting: stacks, intervals, and what is removed when there is no room. */
#include "agent/output/live.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/output/live_private.h"

#define MAX_DELTAS (1u << 20) /* in all intervals together; beyond that the window gets shorter */

static struct live_interval *current(struct output_live *l)
{
	return &l->intervals[l->n_intervals - 1];
}

static int delta_add(struct output_live *l, struct live_entry *e)
{
	struct live_interval *i = current(l);

	if (array_reserve(&i->deltas, &i->cap, i->n + 1, sizeof *i->deltas) < 0)
		return -ENOMEM;
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

/* Counts the functions of the frames, which are then in l->steps. */
static int count_frames(struct output_live *l, const struct output_stack *s, size_t n)
{
	static const struct frame none = {.function = "[no frames]", .kind = FRAME_ENDING};
	int r = array_reserve(&l->steps, &l->cap_steps, n, sizeof *l->steps);

	l->stack++;
	for (size_t i = 0; i < n && r == 0; i++) {
		struct live_function *f = live_function_of(l, s->n_frames ? &s->frames[i] : &none);

		l->steps[i] = (struct live_step){.function = f};
		if (f->entry.stack != l->stack)
			r = count(l, &f->entry, i == 0 ? s->count : 0, s->count);
		f->entry.stack = l->stack;
	}
	return r;
}

/* 0, or -ENOMEM: it is not in all sums, and its entries may not be referred to. */
static int count_stack(struct output_live *l, const struct output_stack *s, struct live_process *p, size_t n)
{
	struct live_function *leaf;
	struct live_cell *c;
	int r = count(l, &p->entry, s->count, s->count);

	if (r == 0)
		r = count_frames(l, s, n);
	if (r < 0)
		return r;
	leaf = l->steps[0].function;
	if (p == l->other_process || leaf == l->other_function)
		l->ever.merged += s->count;
	c = live_cell_of(l, p, leaf);
	if (c)
		(void)count(l, &c->entry, s->count, s->count);
	return 0;
}

void output_live_add(struct output_live *l, const struct output_stack *s)
{
	struct live_process *p = live_process_of(l, s);
	size_t n = s->n_frames ? s->n_frames : 1;

	if (!s->count)
		return;
	current(l)->samples += s->count;
	current(l)->incomplete += s->complete ? 0 : s->count;
	l->window.samples += s->count;
	l->window.incomplete += s->complete ? 0 : s->count;
	l->ever.samples += s->count;
	l->ever.incomplete += s->complete ? 0 : s->count;
	if (count_stack(l, s, p, n) == 0) {
		live_stacks_keep(l, s, p, n);
	} else {
		l->ever.merged += s->count;
		current(l)->unkept += s->count;
	}
}

/* Removes the oldest interval from the window. */
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
	live_stacks_forget(l, i);
	free(i->deltas);
	l->n_intervals--;
	memmove(l->intervals, l->intervals + 1, l->n_intervals * sizeof *l->intervals);
}

/* Begins an interval. Without memory, the current one continues. */
static void begin_interval(struct output_live *l)
{
	if (array_reserve(&l->intervals, &l->cap_intervals, l->n_intervals + 1, sizeof *l->intervals) < 0)
		return;
	l->intervals[l->n_intervals++] = (struct live_interval){0};
	l->interval++;
}

/*
 * Entries are removed in rounds: those that are not in the window and have at most `limit` samples since the
 * start. Then the limit is doubled, until there is room. A cell is removed before its function or process.
 */

static bool is_idle(const struct live_entry *e, uint64_t limit)
{
	return !e->window.total && e->ever.total <= limit;
}

static void sweep_cells(struct output_live *l, uint64_t limit)
{
	struct map_node *n;

	map_for_each (&l->cells, n, i) {
		struct live_cell *c = container_of(n, struct live_cell, entry.node);

		if (c->entry.window.total)
			continue;
		if (!is_idle(&c->entry, limit) && !is_idle(&c->process->entry, limit) &&
		    !is_idle(&c->function->entry, limit))
			continue;
		c->process->entry.n_cells--;
		c->function->entry.n_cells--;
		map_remove(&l->cells, n);
		free(c);
	}
}

/* Removes the idle entries of a map whose elements begin with their struct live_entry. */
static uint64_t sweep(struct map *m, uint64_t limit)
{
	uint64_t forgotten = 0;
	struct map_node *n;

	map_for_each (m, n, i) {
		struct live_entry *e = container_of(n, struct live_entry, node);

		if (!is_idle(e, limit) || e->n_cells)
			continue;
		forgotten += e->ever.self;
		map_remove(m, n);
		free(e);
	}
	return forgotten;
}

_Static_assert(offsetof(struct live_function, entry) == 0 && offsetof(struct live_process, entry) == 0,
	       "sweep frees an element by the address of its entry");

static bool is_full(const struct map *m)
{
	return m->len > m->max - m->max / 8;
}

static bool has_room(const struct map *m)
{
	return m->len <= m->max / 4 * 3;
}

static void live_sweep(struct output_live *l)
{
	if (!is_full(&l->functions) && !is_full(&l->processes) && !is_full(&l->cells))
		return;
	for (uint64_t limit = 1; limit && limit <= l->ever.samples * 2; limit *= 2) {
		sweep_cells(l, limit);
		l->ever.forgotten_functions += sweep(&l->functions, limit);
		l->ever.forgotten_processes += sweep(&l->processes, limit);
		if (has_room(&l->functions) && has_room(&l->processes) && has_room(&l->cells))
			return;
	}
}

void output_live_tick(struct output_live *l, uint64_t interval_ns, uint64_t arrived)
{
	current(l)->ns += interval_ns;
	current(l)->arrived += arrived;
	l->window.arrived += arrived;
	l->ever.arrived += arrived;
	l->window.duration_ns += interval_ns;
	l->ever.duration_ns += interval_ns;
	/* intervals have varying lengths */
	while (l->n_intervals > 1 &&
	       (l->n_deltas > MAX_DELTAS ||
		l->window.duration_ns - l->intervals[0].ns + interval_ns / 2 >= l->window_ns))
		forget_interval(l);
	live_sweep(l);
	begin_interval(l);
}

/* Processes that ran in the window, or all that are known. */
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
	for (size_t i = 0; i < l->n_intervals; i++)
		ret->unkept += l->intervals[i].unkept;
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
	for (size_t i = 0; i < l->n_intervals; i++) {
		live_stacks_forget(l, &l->intervals[i]);
		free(l->intervals[i].deltas);
	}
	free(l->steps);
	free(l->intervals);
	live_store_fini(l);
	free(l);
}
