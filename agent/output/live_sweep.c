// SPDX-License-Identifier: Apache-2.0
/*
 * Forgets in rounds: what has no more samples since the start than a limit, and none in the window, goes;
 * then the limit is doubled, until there is room. Cells go with what they point to, and before it.
 */
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/output/live_store.h"

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

/* Entries of a map whose node comes first in what is freed. */
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
	       "sweep frees an entry as what it is of");

static bool is_full(const struct map *m)
{
	return m->len > m->max - m->max / 8;
}

static bool has_room(const struct map *m)
{
	return m->len <= m->max / 4 * 3;
}

void live_sweep(struct output_live *l)
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
