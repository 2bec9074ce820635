// SPDX-License-Identifier: Apache-2.0
/*
 * An entry stays when no later one overlaps it, whatever became of that one since. So the entries are walked
 * from the last to the first over the sorted ends of all ranges, each cell between two ends is covered once,
 * and an entry that finds one of its cells covered is out: sorting is all it costs, however they overlap.
 */
#include "agent/symbol/jittable_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"

static int by_start(const void *a, const void *b)
{
	const struct jit_entry *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* The last entry that starts there and came before `order`; NULL. The entries are sorted. */
static const struct jit_entry *entry_before(const struct jit_builder *b, uint64_t start, uint32_t order)
{
	size_t low = 0, high = b->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct jit_entry *e = &b->v[middle];

		if (e->start < start || (e->start == start && e->order < order))
			low = middle + 1;
		else
			high = middle;
	}
	return low && b->v[low - 1].start == start ? &b->v[low - 1] : NULL;
}

/* Gives moved code its name. A name that there is no room for is a missing name. */
static void name_move(struct jit_builder *b, const struct jit_table *old, struct jit_entry *e)
{
	const struct jit_entry *was = entry_before(b, e->from, e->order - 1); /* not the one that clears it */
	const struct jit_range *x = was ? NULL : jit_table_range(old, e->from);
	size_t at = b->names.len;

	if (was)
		e->name = was->name;
	else if (x && x->start == e->from &&
		 buf_append(&b->names, old->names + x->name, strlen(old->names + x->name) + 1) == 0)
		e->name = (uint32_t)at;
}

/* Scratch of one table's making. */
struct cover {
	uint64_t *ends;	    /* of all ranges, ascending, each once */
	uint32_t *next;	    /* by cell: itself, or on the way to the next one that is not covered */
	uint32_t *by_order; /* index of the entry */
	bool *out;	    /* by index */
	size_t n_ends;
};

static void cover_fini(struct cover *c)
{
	free(c->ends);
	free(c->next);
	free(c->by_order);
	free(c->out);
}

static int cover_init(struct cover *c, const struct jit_builder *b)
{
	size_t n = 0;

	c->ends = malloc((2 * b->n + 1) * sizeof *c->ends);
	c->next = malloc((2 * b->n + 1) * sizeof *c->next);
	c->by_order = malloc((b->n + 1) * sizeof *c->by_order);
	c->out = calloc(b->n + 1, sizeof *c->out);
	if (!c->ends || !c->next || !c->by_order || !c->out)
		return -ENOMEM;
	for (size_t i = 0; i < b->n; i++) {
		c->ends[n++] = b->v[i].start;
		c->ends[n++] = b->v[i].end;
		c->by_order[b->v[i].order] = (uint32_t)i;
	}
	qsort(c->ends, n, sizeof *c->ends, by_value);
	for (size_t i = 0; i < n; i++)
		if (!i || c->ends[i] != c->ends[c->n_ends - 1])
			c->ends[c->n_ends++] = c->ends[i];
	for (size_t i = 0; i <= c->n_ends; i++)
		c->next[i] = (uint32_t)i;
	return 0;
}

/* The first cell from `i` on that is not covered. */
static uint32_t cover_next(struct cover *c, uint32_t i)
{
	while (c->next[i] != i)
		i = c->next[i] = c->next[c->next[i]];
	return i;
}

static uint32_t cell_of(const struct cover *c, uint64_t end)
{
	const uint64_t *found = bsearch(&end, c->ends, c->n_ends, sizeof *c->ends, by_value);

	return (uint32_t)(found - c->ends);
}

/* Covers the cells of a range; true when none was covered. */
static bool cover_take(struct cover *c, uint64_t start, uint64_t end)
{
	uint32_t from = cell_of(c, start), to = cell_of(c, end), free_cells = 0;

	for (uint32_t i = cover_next(c, from); i < to; i = cover_next(c, i)) {
		c->next[i] = i + 1;
		free_cells++;
	}
	return free_cells == to - from;
}

int jit_builder_sort(struct jit_builder *b, const struct jit_table *old, struct jit_covered *ret)
{
	_cleanup_(cover_fini) struct cover c = {0};
	_cleanup_free_ struct jit_entry *covered = malloc((b->n + 1) * sizeof *covered);
	size_t n = 0, k = 0;
	int r;

	if (!covered)
		return -ENOMEM;
	if (b->n)
		qsort(b->v, b->n, sizeof *b->v, by_start);
	r = cover_init(&c, b);
	if (r < 0)
		return r;
	for (size_t i = 0; i < b->n; i++)
		if (b->v[c.by_order[i]].from)
			name_move(b, old, &b->v[c.by_order[i]]);
	for (size_t i = b->n; i-- > 0;) {
		const struct jit_entry *e = &b->v[c.by_order[i]];

		c.out[c.by_order[i]] = !cover_take(&c, e->start, e->end) || e->name == JIT_NAME_NONE;
	}
	for (size_t i = 0; i < b->n; i++) {
		const struct jit_entry e = b->v[i];

		if (k && e.start <= covered[k - 1].end)
			covered[k - 1].end = e.end > covered[k - 1].end ? e.end : covered[k - 1].end;
		else
			covered[k++] = e;
		if (!c.out[i])
			b->v[n++] = e;
	}
	b->n = n;
	*ret = (struct jit_covered){TAKE_PTR(covered), k};
	return 0;
}
