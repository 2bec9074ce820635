// SPDX-License-Identifier: Apache-2.0
/* Entries as a sorted table. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/output/live_private.h"

static const struct live_count *sums(const struct live_rows *r, const struct live_entry *e)
{
	return r->q->since_start ? &e->ever : &e->window;
}

int live_row_new(struct live_rows *r, struct live_entry *e, struct live_count c, struct output_live_row **ret)
{
	if (array_reserve(&r->v, &r->cap, r->n + 1, sizeof *r->v) < 0)
		return -ENOMEM;
	*ret = &r->v[r->n++];
	**ret = (struct output_live_row){.name = "",
					 .module = "",
					 .container = "",
					 .container_name = "",
					 .top = "",
					 .self = c.self,
					 .total = c.total};
	e->row = r->n;
	return 0;
}

int live_row_of_function(struct live_rows *r, struct live_function *f, struct live_count c,
			 struct output_live_row **ret)
{
	if (live_row_new(r, &f->entry, c, ret) < 0)
		return -ENOMEM;
	(*ret)->name = f->name;
	(*ret)->module = f->module;
	(*ret)->kind = f->kind;
	return 0;
}

static int function_row(struct live_rows *r, struct live_function *f)
{
	struct output_live_row *row;

	f->entry.row = 0;
	return sums(r, &f->entry)->total ? live_row_of_function(r, f, *sums(r, &f->entry), &row) : 0;
}

static int functions(struct live_rows *r)
{
	struct map_node *n;

	map_for_each (&r->l->functions, n, i)
		if (function_row(r, container_of(n, struct live_function, entry.node)) < 0)
			return -ENOMEM;
	if (function_row(r, r->l->other_function) < 0)
		return -ENOMEM;
	map_for_each (&r->l->cells, n, i) {
		const struct live_cell *c = container_of(n, struct live_cell, entry.node);
		uint64_t self = sums(r, &c->entry)->self;
		struct output_live_row *row;

		if (!self || !c->function->entry.row)
			continue;
		row = &r->v[c->function->entry.row - 1];
		row->elsewhere |= row->most && strcmp(row->container, c->process->container) != 0;
		if (self <= row->most)
			continue;
		row->most = self;
		row->container = c->process->container;
		row->container_name = c->process->container_name;
	}
	return 0;
}

static int process_row(struct live_rows *r, struct live_process *p)
{
	struct output_live_row *row;

	p->entry.row = 0;
	if (!sums(r, &p->entry)->self)
		return 0;
	if (live_row_new(r, &p->entry, *sums(r, &p->entry), &row) < 0)
		return -ENOMEM;
	row->name = p->comm;
	row->container = p->container;
	row->container_name = p->container_name;
	row->pid = p->pid;
	row->n_processes = 1;
	return 0;
}

static int processes(struct live_rows *r)
{
	struct map_node *n;

	map_for_each (&r->l->processes, n, i)
		if (process_row(r, container_of(n, struct live_process, entry.node)) < 0)
			return -ENOMEM;
	return process_row(r, r->l->other_process);
}

static int by_container(const void *a, const void *b)
{
	const struct live_process *x = *(const struct live_process *const *)a,
				  *y = *(const struct live_process *const *)b;

	return strcmp(x->container, y->container);
}

/* One row for each run of processes with the same container. */
static int merge_processes(struct live_rows *r, struct live_process **v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct output_live_row *row;

		if (i && strcmp(v[i]->container, v[i - 1]->container) == 0) {
			row = &r->v[r->n - 1];
			v[i]->entry.row = r->n;
			row->self += sums(r, &v[i]->entry)->self;
			row->total += sums(r, &v[i]->entry)->self;
		} else {
			if (live_row_new(r, &v[i]->entry, *sums(r, &v[i]->entry), &row) < 0)
				return -ENOMEM;
			row->container = v[i]->container;
		}
		if (v[i]->container_name[0])
			row->container_name = v[i]->container_name;
		row->n_processes++;
	}
	return 0;
}

static int containers(struct live_rows *r)
{
	_cleanup_free_ struct live_process **v = calloc(r->l->processes.len + 1, sizeof *v);
	struct map_node *node;
	size_t n = 0;

	if (!v)
		return -ENOMEM;
	map_for_each (&r->l->processes, node, i) {
		struct live_process *p = container_of(node, struct live_process, entry.node);

		p->entry.row = 0;
		if (sums(r, &p->entry)->self)
			v[n++] = p;
	}
	r->l->other_process->entry.row = 0;
	if (sums(r, &r->l->other_process->entry)->self)
		v[n++] = r->l->other_process;
	qsort(v, n, sizeof(struct live_process *), by_container);
	return merge_processes(r, v, n);
}

/* The samples of one function in one row of processes. */
struct part {
	size_t row;
	const struct live_function *function;
	uint64_t self;
};

static int by_row_and_function(const void *a, const void *b)
{
	const struct part *x = a, *y = b;

	if (x->row != y->row)
		return x->row < y->row ? -1 : 1;
	return (x->function > y->function) - (x->function < y->function);
}

/* Finds the function with most samples for each row of processes. */
static int find_tops(struct live_rows *r)
{
	_cleanup_free_ struct part *v = calloc(r->l->cells.len + 1, sizeof *v);
	struct map_node *node;
	size_t n = 0;

	if (!v)
		return -ENOMEM;
	map_for_each (&r->l->cells, node, i) {
		const struct live_cell *c = container_of(node, struct live_cell, entry.node);
		uint64_t self = sums(r, &c->entry)->self;

		if (self && c->process->entry.row)
			v[n++] = (struct part){c->process->entry.row, c->function, self};
	}
	qsort(v, n, sizeof *v, by_row_and_function);
	for (size_t i = 0, next; i < n; i = next) {
		struct output_live_row *row = &r->v[v[i].row - 1];
		uint64_t self = 0;

		for (next = i; next < n && by_row_and_function(&v[i], &v[next]) == 0; next++)
			self += v[next].self;
		if (self <= row->top_self)
			continue;
		row->top_self = self;
		row->top = v[i].function->name;
		row->kind = v[i].function->kind;
	}
	return 0;
}

bool live_row_wanted(const struct output_live_row *row, const char *filter)
{
	char pid[16];

	if (!filter || !*filter)
		return true;
	snprintf(pid, sizeof pid, "%u", row->pid);
	return strcasestr(row->name, filter) || strcasestr(row->module, filter) ||
	       strcasestr(row->container, filter) || strcasestr(row->container_name, filter) ||
	       strcasestr(row->top, filter) || (row->pid && strcmp(pid, filter) == 0);
}

static int by_most(const void *a, const void *b, void *by_total)
{
	const struct output_live_row *x = a, *y = b;
	bool total = *(const bool *)by_total;
	uint64_t first = total ? x->total : x->self, second = total ? y->total : y->self;

	if (x->role != y->role)
		return x->role < y->role ? -1 : 1;
	if (first == second) {
		first = total ? x->self : x->total;
		second = total ? y->self : y->total;
	}
	if (first != second)
		return first < second ? 1 : -1;
	/* a fixed order, so that equal rows keep their places */
	return strcmp(x->name, y->name) ?: strcmp(x->module, y->module) ?: strcmp(x->container, y->container)
	       ?: (x->pid > y->pid) - (x->pid < y->pid);
}

static int make_rows(struct live_rows *r, uint64_t *ret_whole)
{
	int e;

	if (r->q->scope)
		return r->q->scope->function ? live_scope_calls(r, ret_whole)
					     : live_scope_functions(r, ret_whole);
	*ret_whole = r->q->since_start ? r->l->ever.samples : r->l->window.samples;
	if (r->q->view == OUTPUT_LIVE_FUNCTIONS)
		return functions(r);
	e = r->q->view == OUTPUT_LIVE_PROCESSES ? processes(r) : containers(r);
	return e < 0 ? e : find_tops(r);
}

int output_live_rows(struct output_live *l, const struct output_live_query *q, struct output_live_rows *ret)
{
	struct live_rows r = {.l = l, .q = q};
	bool by_total = q->by_total && (q->view == OUTPUT_LIVE_FUNCTIONS || q->scope);
	uint64_t whole = 0;
	size_t n = 0;
	int e;

	*ret = (struct output_live_rows){0};
	e = make_rows(&r, &whole);
	if (e < 0) {
		free(r.v);
		return e;
	}
	for (size_t i = 0; i < r.n; i++)
		if (live_row_wanted(&r.v[i], q->filter))
			r.v[n++] = r.v[i];
	if (n)
		qsort_r(r.v, n, sizeof *r.v, by_most, &by_total);
	*ret = (struct output_live_rows){r.v, n, whole};
	return 0;
}

void output_live_rows_fini(struct output_live_rows *r)
{
	free(r->rows);
	*r = (struct output_live_rows){0};
}
