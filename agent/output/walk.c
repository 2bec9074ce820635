// SPDX-License-Identifier: Apache-2.0
/*
 * A merged node is a run of tree nodes with the same function in `pending`, which serves as a stack: the
 * children of the run are pushed, sorted by function, visited run by run, and popped. Its size is at most
 * that of all siblings along one path. The recursion is at most OUTPUT_MAX_DEPTH deep.
 */
#include "agent/output/walk.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/output/profile_private.h"

struct item {
	uint32_t function;
	const struct output_node *node;
};

struct walk {
	const struct output_profile *p;
	const struct output_walk_ops *ops;
	void *data;
	struct item *pending; /* owned */
	size_t n, cap;
};

static void walk_fini(struct walk *w)
{
	free(w->pending);
}

static int push_children(struct walk *w, const struct output_node *node)
{
	for (const struct output_node *c = node->child; c; c = c->sibling) {
		if (!c->self && !c->child)
			continue; /* an unused [other] */
		if (array_reserve(&w->pending, &w->cap, w->n + 1, sizeof *w->pending) < 0)
			return -ENOMEM;
		w->pending[w->n++] = (struct item){output_location_of(w->p, c->location)->function, c};
	}
	return 0;
}

static int compare(const void *a, const void *b)
{
	uint32_t x = ((const struct item *)a)->function, y = ((const struct item *)b)->function;

	return (x > y) - (x < y);
}

/* Visits the children pushed from `base` on, as merged nodes at `depth`, and pops them. */
static int visit(struct walk *w, size_t base, size_t depth, uint64_t *ret_total)
{
	size_t end = w->n, next;
	uint64_t sum = 0;
	int r = 0;

	if (end - base > 1)
		qsort(w->pending + base, end - base, sizeof *w->pending, compare);
	for (size_t i = base; i < end; i = next) {
		uint32_t function = w->pending[i].function;
		uint64_t self = 0, below = 0;

		for (next = i; next < end && w->pending[next].function == function; next++) {
			self += w->pending[next].node->self;
			if (w->ops->node)
				w->ops->node(w->data, w->pending[next].node);
		}
		if (w->ops->enter)
			r = w->ops->enter(w->data, function, depth, self);
		for (size_t j = i; j < next && r == 0; j++)
			r = push_children(w, w->pending[j].node);
		if (r == 0 && w->n > end)
			r = visit(w, end, depth + 1, &below);
		if (r == 0 && w->ops->leave)
			r = w->ops->leave(w->data, function, depth, self + below);
		if (r < 0)
			return r;
		sum += self + below;
	}
	w->n = base;
	*ret_total = sum;
	return 0;
}

int output_walk(const struct output_profile *p, const struct output_group *const *groups, size_t n_groups,
		const struct output_walk_ops *ops, void *data)
{
	_cleanup_(walk_fini) struct walk w = {.p = p, .ops = ops, .data = data};
	uint64_t total;
	int r = 0;

	for (size_t i = 0; i < n_groups && r == 0; i++)
		r = push_children(&w, &groups[i]->root);
	return r < 0 ? r : visit(&w, 0, 1, &total);
}
