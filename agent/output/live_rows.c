// SPDX-License-Identifier: Apache-2.0
/*
 * Rows come from functions, processes, or sets of processes; what a row says beside its own sums comes from
 * the cells: where a function ran most, in what a process spent its time.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/output/live_store.h"

struct rows {
	struct output_live *l;
	const struct output_live_query *q;
	struct output_live_row *v; /* owned */
	size_t n, cap;
};

static const struct live_count *sums(const struct rows *r, const struct live_entry *e)
{
	return r->q->since_start ? &e->ever : &e->window;
}

static int row_new(struct rows *r, struct live_entry *e, struct output_live_row **ret)
{
	const struct live_count *c = sums(r, e);

	if (r->n == r->cap) {
		size_t cap = r->cap ? r->cap * 2 : 256;
		struct output_live_row *more = reallocarray(r->v, cap, sizeof *more);

		if (!more)
			return -ENOMEM;
		r->v = more;
		r->cap = cap;
	}
	*ret = &r->v[r->n++];
	**ret = (struct output_live_row){.name = "",
					 .module = "",
					 .container = "",
					 .container_name = "",
					 .top = "",
					 .self = c->self,
					 .total = c->total};
	e->row = r->n;
	return 0;
}

static int function_row(struct rows *r, struct live_function *f)
{
	struct output_live_row *row;

	f->entry.row = 0;
	if (!sums(r, &f->entry)->total)
		return 0;
	if (row_new(r, &f->entry, &row) < 0)
		return -ENOMEM;
	row->name = f->name;
	row->module = f->module;
	row->kind = f->kind;
	return 0;
}

static int functions(struct rows *r)
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

static int process_row(struct rows *r, struct live_process *p)
{
	struct output_live_row *row;

	p->entry.row = 0;
	if (!sums(r, &p->entry)->self)
		return 0;
	if (row_new(r, &p->entry, &row) < 0)
		return -ENOMEM;
	row->name = p->comm;
	row->container = p->container;
	row->container_name = p->container_name;
	row->pid = p->pid;
	row->n_processes = 1;
	return 0;
}

static int processes(struct rows *r)
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
static int merge_processes(struct rows *r, struct live_process **v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct output_live_row *row;

		if (i && strcmp(v[i]->container, v[i - 1]->container) == 0) {
			row = &r->v[r->n - 1];
			v[i]->entry.row = r->n;
			row->self += sums(r, &v[i]->entry)->self;
			row->total += sums(r, &v[i]->entry)->self;
		} else {
			if (row_new(r, &v[i]->entry, &row) < 0)
				return -ENOMEM;
			row->container = v[i]->container;
		}
		if (v[i]->container_name[0])
			row->container_name = v[i]->container_name;
		row->n_processes++;
	}
	return 0;
}

static int containers(struct rows *r)
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

/* What a row of processes has of one function. */
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

/* The function with most samples, of each row of processes. */
static int find_tops(struct rows *r)
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

static bool wanted(const struct output_live_row *row, const char *filter)
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

	if (first == second) {
		first = total ? x->self : x->total;
		second = total ? y->self : y->total;
	}
	if (first != second)
		return first < second ? 1 : -1;
	/* so that equal rows do not change places each second */
	return strcmp(x->name, y->name) ?: strcmp(x->module, y->module) ?: strcmp(x->container, y->container)
	       ?: (x->pid > y->pid) - (x->pid < y->pid);
}

int output_live_rows(struct output_live *l, const struct output_live_query *q, struct output_live_rows *ret)
{
	struct rows r = {.l = l, .q = q};
	bool by_total = q->by_total && q->view == OUTPUT_LIVE_FUNCTIONS;
	size_t n = 0;
	int e;

	*ret = (struct output_live_rows){0};
	e = q->view == OUTPUT_LIVE_FUNCTIONS   ? functions(&r)
	    : q->view == OUTPUT_LIVE_PROCESSES ? processes(&r)
					       : containers(&r);
	if (e == 0 && q->view != OUTPUT_LIVE_FUNCTIONS)
		e = find_tops(&r);
	if (e < 0) {
		free(r.v);
		return e;
	}
	for (size_t i = 0; i < r.n; i++)
		if (wanted(&r.v[i], q->filter))
			r.v[n++] = r.v[i];
	if (n)
		qsort_r(r.v, n, sizeof *r.v, by_most, &by_total);
	*ret = (struct output_live_rows){r.v, n};
	return 0;
}

void output_live_rows_fini(struct output_live_rows *r)
{
	free(r->rows);
	*r = (struct output_live_rows){0};
}
