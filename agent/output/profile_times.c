// SPDX-License-Identifier: Apache-2.0
/*
 * When the samples of a node were taken. Time is divided into columns of 2^shift ns since 1970, so that two
 * neighbours become one column by a shift, whatever the first of them is. Each node has a list of cells, the
 * one that was added last first: so many samples in that column. Whenever there would be too many columns, or
 * too many cells, all columns become twice as wide. Cells that this makes equal are joined; this frees them
 * and needs no memory, so it cannot fail.
 */
#include <errno.h>
#include <stdlib.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/output/profile_private.h"

#define SHIFT_FIRST 20u /* columns of a millisecond */
#define SHIFT_MAX 63u

void output_times_init(struct output_times *t, size_t max_cells)
{
	*t = (struct output_times){.max_cells = max_cells, .shift = SHIFT_FIRST, .first = UINT64_MAX};
}

void output_times_fini(struct output_times *t)
{
	free(t->cells);
}

static int take_cell(struct output_times *t, uint32_t *ret)
{
	if (t->free) {
		*ret = t->free;
		t->free = t->cells[*ret].next;
	} else {
		if (array_reserve(&t->cells, &t->cap, t->n + 2, sizeof *t->cells) < 0)
			return -ENOMEM;
		*ret = (uint32_t)++t->n; /* [0] is none */
	}
	t->n_used++;
	return 0;
}

/* Joins neighbours in the list that are of one column. */
static void join_cells(struct output_times *t, uint32_t at)
{
	while (at && t->cells[at].next) {
		struct output_cell *c = &t->cells[at];
		const uint32_t next = c->next;
		struct output_cell *n = &t->cells[next];

		if (c->column != n->column || c->count > UINT32_MAX - n->count) {
			at = next;
			continue;
		}
		c->count += n->count;
		c->next = n->next;
		n->next = t->free;
		t->free = next;
		t->n_used--;
	}
}

/* Makes the columns twice as wide. */
static void coarsen(struct output_profile *p)
{
	struct output_times *t = &p->times;
	struct map_node *node;

	t->shift++;
	t->first >>= 1;
	t->last >>= 1;
	for (size_t i = 1; i <= t->n; i++)
		t->cells[i].column >>= 1;
	map_for_each (&p->nodes, node, i)
		join_cells(t, container_of(node, struct output_node, node)->cells);
	for (uint32_t id = 1; id <= output_table_len(&p->groups); id++)
		join_cells(t, output_group_of(p, id)->other.cells);
}

static void add_time(struct output_profile *p, struct output_node *node, uint64_t time)
{
	struct output_times *t = &p->times;
	const uint64_t column = time >> t->shift;
	uint32_t at = node->cells;

	if (!at || t->cells[at].column != column || t->cells[at].count == UINT32_MAX) {
		if (take_cell(t, &at) < 0)
			return; /* the sample is one without a time */
		t->cells[at] = (struct output_cell){.column = column, .next = node->cells};
		node->cells = at;
	}
	t->cells[at].count++;
	t->n_samples++;
	t->first = column < t->first ? column : t->first;
	t->last = column > t->last ? column : t->last;
	while (t->shift < SHIFT_MAX &&
	       (output_times_columns(t) > OUTPUT_MAX_COLUMNS || t->n_used > t->max_cells))
		coarsen(p);
}

void output_times_add(struct output_profile *p, struct output_node *node, const uint64_t *times, size_t n)
{
	for (size_t i = 0; i < n; i++)
		add_time(p, node, times[i]);
}

void output_times_move(struct output_profile *p, struct output_node *to, struct output_node *from)
{
	struct output_cell *cells = p->times.cells;
	uint32_t last = from->cells;

	if (!last)
		return;
	while (cells[last].next)
		last = cells[last].next;
	cells[last].next = to->cells;
	to->cells = from->cells;
	from->cells = 0;
}
