// SPDX-License-Identifier: Apache-2.0
/* The tree is built from all paths, by function, and then printed without the rows that are too small. */
#include "agent/output/tree.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/pool.h"
#include "agent/output/display_text.h"
#include "agent/output/profile_private.h"
#include "agent/output/sheet.h"
#include "agent/output/walk.h"

#define NODES_MAX (4u << 20)
#define MIN_PERCENT 0.5
#define NUMBERS_WIDTH 26
#define INDENT_MAX 60u /* columns; what is deeper is not indented further */

static const struct sheet_columns limits = {.min = 80, .max = 400, .otherwise = 120};

struct tree_node {
	struct map_node node;
	struct tree_node *parent, *child, *sibling;
	uint32_t function; /* or string, of a group */
	bool is_group;
	uint64_t self, total;
};

struct tree {
	const struct output_profile *p;
	const struct output_tree_options *options;
	struct sheet sheet;
	double min_percent;
	struct pool pool;
	struct map nodes;
	struct tree_node root, *group; /* the row that paths are added below */
	uint32_t *path;		       /* of the walk; owned */
	size_t path_cap;
	struct tree_node **sorted; /* scratch of the rows of one level; owned */
	size_t sorted_cap;
};

static void tree_fini(struct tree *t)
{
	map_fini(&t->nodes);
	pool_fini(&t->pool);
	free(t->path);
	free(t->sorted);
}

struct node_key {
	const struct tree_node *parent;
	uint32_t function;
	bool is_group;
};

static bool node_is(const struct map_node *node, const void *key)
{
	const struct tree_node *n = container_of(node, struct tree_node, node);
	const struct node_key *k = key;

	return n->parent == k->parent && n->function == k->function && n->is_group == k->is_group;
}

/* The row of a function below a row; it is made if there is none. NULL: no memory, or too many rows. */
static struct tree_node *child_of(struct tree *t, struct tree_node *parent, uint32_t function, bool is_group)
{
	const struct node_key key = {parent, function, is_group};
	const uint64_t hash = hash_u64((uintptr_t)parent ^ hash_u64((uint64_t)function << 1 | is_group));
	struct map_node *found = map_find(&t->nodes, hash, node_is, &key);
	struct tree_node *n;

	if (found)
		return container_of(found, struct tree_node, node);
	n = pool_take(&t->pool, sizeof *n);
	if (!n)
		return NULL;
	*n = (struct tree_node){
		.parent = parent, .sibling = parent->child, .function = function, .is_group = is_group};
	if (map_insert(&t->nodes, &n->node, hash) < 0)
		return NULL;
	parent->child = n;
	return n;
}

/* Adds `samples` that end at path[depth - 1]. */
static int add_path(struct tree *t, size_t depth, uint64_t samples)
{
	struct tree_node *at = t->group;

	at->total += samples;
	for (size_t i = 0; i < depth; i++) {
		struct tree_node *next =
			child_of(t, at, t->path[t->options->callers ? depth - 1 - i : i], false);

		if (!next)
			return t->nodes.len >= NODES_MAX ? 0 : -ENOMEM; /* the callers above have them */
		at = next;
		at->total += samples;
		if (t->options->callers ? i == 0 : i + 1 == depth)
			at->self += samples;
	}
	return 0;
}

static int enter(void *data, uint32_t function, size_t depth, uint64_t self)
{
	struct tree *t = data;

	if (array_reserve(&t->path, &t->path_cap, depth, sizeof *t->path) < 0)
		return -ENOMEM;
	t->path[depth - 1] = function;
	return self ? add_path(t, depth, self) : 0;
}

/* The string that a group is called by. */
static uint32_t name_of(const struct tree *t, const struct output_group *g)
{
	switch (t->options->by) {
	case OUTPUT_BY_CONTAINER:
		return g->container_name ?: g->container;
	case OUTPUT_BY_THREAD:
		return g->thread ?: g->process;
	default:
		return g->process;
	}
}

static int build(struct tree *t)
{
	static const struct output_walk_ops ops = {.enter = enter};
	int r = 0;

	for (uint32_t id = 1; id <= output_table_len(&t->p->groups) && r == 0; id++) {
		const struct output_group *g = output_group_of(t->p, id);

		if (!g->n_samples)
			continue;
		t->group = t->options->by == OUTPUT_BY_NONE ? &t->root
							    : child_of(t, &t->root, name_of(t, g), true);
		if (!t->group)
			return -ENOMEM;
		r = output_walk(t->p, &g, 1, &ops, t);
	}
	if (t->options->by != OUTPUT_BY_NONE)
		for (const struct tree_node *n = t->root.child; n; n = n->sibling)
			t->root.total += n->total;
	return r;
}

/* --- printing */

static double percent(const struct tree *t, uint64_t samples)
{
	return t->root.total ? 100.0 * (double)samples / (double)t->root.total : 0;
}

/* The rest of a line: indentation, name, and where the function belongs, if there is room. */
static void put_name(const struct tree *t, unsigned depth, const char *name, const char *origin)
{
	const unsigned indent = depth < INDENT_MAX ? depth : INDENT_MAX;
	const size_t room = t->sheet.columns - NUMBERS_WIDTH - indent, n = output_text_columns(name);

	fprintf(t->sheet.f, "%*s", (int)indent, "");
	if (n > room) {
		fwrite(name, 1, output_text_bytes(name, room - 1), t->sheet.f);
		fputs("\xe2\x80\xa6", t->sheet.f);
	} else {
		fputs(name, t->sheet.f);
	}
	if (*origin && n + 2 + output_text_columns(origin) <= room)
		fprintf(t->sheet.f, "  %s%s%s", sheet_style(&t->sheet, SHEET_DIM), origin,
			sheet_style(&t->sheet, SHEET_PLAIN));
	fputc('\n', t->sheet.f);
}

static void put_row(const struct tree *t, const struct tree_node *n, unsigned depth)
{
	const struct output_function *f = n->is_group ? NULL : output_function_of(t->p, n->function);
	const char *name = output_string_text(t->p, f ? f->name : n->function);

	fprintf(t->sheet.f, "%6.2f  %6.2f  %8" PRIu64 "  ", percent(t, n->total), percent(t, n->self),
		n->total);
	if (!f && !*name)
		name = t->options->by == OUTPUT_BY_CONTAINER ? "host" : "[unnamed]";
	put_name(t, depth, name, f ? output_function_origin(t->p, f) : "");
}

static int by_total(const void *a, const void *b)
{
	const struct tree_node *x = *(struct tree_node *const *)a, *y = *(struct tree_node *const *)b;

	if (x->total != y->total)
		return x->total < y->total ? 1 : -1;
	return (x->function > y->function) - (x->function < y->function);
}

/* Puts the children in the order of their samples. */
static int sort_children(struct tree *t, struct tree_node *parent)
{
	size_t n = 0;

	for (struct tree_node *c = parent->child; c; c = c->sibling) {
		if (array_reserve(&t->sorted, &t->sorted_cap, n + 1, sizeof(struct tree_node *)) < 0)
			return -ENOMEM;
		t->sorted[n++] = c;
	}
	if (n)
		qsort(t->sorted, n, sizeof(struct tree_node *), by_total);
	parent->child = NULL;
	while (n) {
		t->sorted[n - 1]->sibling = parent->child;
		parent->child = t->sorted[--n];
	}
	return 0;
}

/* The rows from this one on that are too small, as one. */
static void put_rest(const struct tree *t, const struct tree_node *from, unsigned depth)
{
	uint64_t total = 0;
	size_t n = 0;

	for (; from; from = from->sibling, n++)
		total += from->total;
	fprintf(t->sheet.f, "%6.2f  %6s  %8" PRIu64 "  %*s%s(%zu more)%s\n", percent(t, total), "", total,
		(int)(depth < INDENT_MAX ? depth : INDENT_MAX), "", sheet_style(&t->sheet, SHEET_DIM), n,
		sheet_style(&t->sheet, SHEET_PLAIN));
}

static int put_all(struct tree *t)
{
	struct tree_node *n = &t->root;
	unsigned depth = 0;

	for (;;) { /* in preorder */
		int r = sort_children(t, n);

		if (r < 0)
			return r;
		if (n->child && percent(t, n->child->total) >= t->min_percent) {
			n = n->child;
		} else {
			if (n->child && percent(t, n->total) >= t->min_percent && n != &t->root &&
			    n->child->sibling)
				put_rest(t, n->child, depth);
			while (n != &t->root &&
			       (!n->sibling || percent(t, n->sibling->total) < t->min_percent)) {
				if (n->sibling)
					put_rest(t, n->sibling, depth - 1);
				n = n->parent;
				depth--;
			}
			if (n == &t->root)
				return 0;
			n = n->sibling;
			depth--;
		}
		put_row(t, n, depth++);
	}
}

int output_tree_write(const struct output_profile *p, const struct output_tree_options *options, FILE *f)
{
	_cleanup_(tree_fini) struct tree t = {
		.p = p,
		.options = options,
		.sheet = sheet_of(f, options->columns, &limits, options->colour),
		.min_percent = options->min_percent > 0 ? options->min_percent : MIN_PERCENT,
	};
	int r;

	map_init(&t.nodes, NODES_MAX);
	r = build(&t);
	if (r < 0)
		return r;
	fprintf(f, "%s%s%s\n", sheet_style(&t.sheet, SHEET_BOLD),
		options->callers ? "TOTAL%   SELF%   SAMPLES  FUNCTION, ITS CALLERS BELOW IT"
				 : "TOTAL%   SELF%   SAMPLES  FUNCTION, WHAT IT CALLS BELOW IT",
		sheet_style(&t.sheet, SHEET_PLAIN));
	r = put_all(&t);
	if (r < 0)
		return r;
	return fflush(f) != 0 || ferror(f) ? -EIO : 0;
}
