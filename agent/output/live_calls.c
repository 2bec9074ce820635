// SPDX-License-Identifier: Apache-2.0
/* Tables of a scope, from the stacks that are kept: its functions, or the callers and callees of one. */
#include <errno.h>

#include "agent/base/cleanup.h"
#include "agent/output/live_private.h"

/* No function has a row yet. */
static void reset_rows(struct output_live *l)
{
	struct map_node *n;

	map_for_each (&l->functions, n, i)
		container_of(n, struct live_function, entry.node)->entry.row = 0;
	l->other_function->entry.row = 0;
}

typedef int (*stack_fn)(struct live_rows *r, const struct live_stack *k);

/* Calls `fn` with each stack of the scope. */
static int each_stack(struct live_rows *r, stack_fn fn, uint64_t *ret_whole)
{
	const struct output_live *l = r->l;

	*ret_whole = 0;
	for (size_t i = 0; i < l->n_intervals; i++)
		for (size_t k = 0; k < l->intervals[i].n_stacks; k++) {
			const struct live_stack *s = l->intervals[i].stacks[k];

			if (!live_stack_in_scope(s, r->q->scope))
				continue;
			*ret_whole += s->count;
			if (fn(r, s) < 0)
				return -ENOMEM;
		}
	return 0;
}

/* The function's row, which is created if there is none. */
static int row_of(struct live_rows *r, struct live_function *f, struct output_live_row **ret)
{
	if (!f->entry.row)
		return live_row_of_function(r, f, (struct live_count){0}, ret);
	*ret = &r->v[f->entry.row - 1];
	return 0;
}

/* --- functions */

static int add_functions(struct live_rows *r, const struct live_stack *k)
{
	r->l->stack++;
	for (size_t i = 0; i < k->n; i++) {
		struct live_function *f = k->steps[i].function;
		struct output_live_row *row;

		if (row_of(r, f, &row) < 0)
			return -ENOMEM;
		row->self += i == 0 ? k->count : 0;
		row->total += f->entry.stack != r->l->stack ? k->count : 0;
		f->entry.stack = r->l->stack;
	}
	return 0;
}

int live_scope_functions(struct live_rows *r, uint64_t *ret_whole)
{
	reset_rows(r->l);
	return each_stack(r, add_functions, ret_whole);
}

/* --- callers and callees */

/* Adds the samples to the row of a function. */
static int add_row(struct live_rows *r, const struct live_stack *k, struct live_function *f,
		   enum output_live_role role)
{
	struct output_live_row *row;

	if (row_of(r, f, &row) < 0)
		return -ENOMEM;
	row->role = role;
	row->self += k->count;
	row->total += k->count;
	return 0;
}

static int add_caller(struct live_rows *r, const struct live_stack *k)
{
	const struct live_function *f = r->function;
	size_t i = k->n;

	while (i && k->steps[i - 1].function != f)
		i--;
	if (!i || i == k->n) /* it is the outermost function: nobody called it */
		return 0;
	return add_row(r, k, k->steps[i].function, OUTPUT_LIVE_CALLER);
}

static int add_callee(struct live_rows *r, const struct live_stack *k)
{
	const struct live_function *f = r->function;
	size_t i = 0;

	while (i < k->n && k->steps[i].function != f)
		i++;
	if (i == k->n)
		return 0;
	return i ? add_row(r, k, k->steps[i - 1].function, OUTPUT_LIVE_CALLEE)
		 : add_row(r, k, k->steps[0].function, OUTPUT_LIVE_ITSELF);
}

int live_scope_calls(struct live_rows *r, uint64_t *ret_whole)
{
	int e;

	r->function = live_function_find(r->l, r->q->scope->function, r->q->scope->module);
	reset_rows(r->l);
	e = each_stack(r, add_caller, ret_whole);
	reset_rows(r->l); /* a function may be both */
	return e < 0 ? e : each_stack(r, add_callee, ret_whole);
}
