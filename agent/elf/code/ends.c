// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/code/ends.h"

#include <stdlib.h>

#include "agent/base/array.h"
#include "agent/elf/code/x86.h"

/* A jump, or branch, from one to another of the instructions: their indexes. */
struct edge {
	uint32_t to, from;
};

struct ends {
	const uint8_t *code;
	struct code_end *v;
	size_t n;
	struct edge *edges; /* by `to` */
	size_t n_edges, edges_cap;
	uint32_t *queue; /* whose predecessors are to be looked at */
	size_t n_queue, queue_cap;
};

static struct x86_insn insn_of(const struct ends *e, size_t i)
{
	return x86_decode(e->code + e->v[i].off, e->v[i].len);
}

static int by_offset(const void *key, const void *element)
{
	const uint32_t off = *(const uint32_t *)key, at = ((const struct code_end *)element)->off;

	return off < at ? -1 : off > at;
}

static int by_target(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;

	return x->to < y->to ? -1 : x->to > y->to;
}

/* The index of the instruction at this offset; n: the frame is not lost there. */
static size_t find(const struct ends *e, int64_t off)
{
	const uint32_t key = (uint32_t)off;
	const struct code_end *found = off == key ? bsearch(&key, e->v, e->n, sizeof *e->v, by_offset) : NULL;

	return found ? (size_t)(found - e->v) : e->n;
}

static int read_edges(struct ends *e)
{
	for (size_t i = 0; i < e->n; i++) {
		const struct x86_insn insn = insn_of(e, i);
		size_t to;
		int r;

		if (e->v[i].kind != CODE_END_NONE || (insn.op != X86_JUMP && insn.op != X86_BRANCH))
			continue;
		to = find(e, (int64_t)e->v[i].off + insn.len + insn.disp);
		if (to == e->n)
			continue;
		r = array_reserve(&e->edges, &e->edges_cap, e->n_edges + 1, sizeof *e->edges);
		if (r < 0)
			return r;
		e->edges[e->n_edges++] = (struct edge){(uint32_t)to, (uint32_t)i};
	}
	if (e->n_edges)
		qsort(e->edges, e->n_edges, sizeof *e->edges, by_target);
	return 0;
}

static int enqueue(struct ends *e, size_t i)
{
	const int r = array_reserve(&e->queue, &e->queue_cap, e->n_queue + 1, sizeof *e->queue);

	if (r == 0)
		e->queue[e->n_queue++] = (uint32_t)i;
	return r;
}

/* One of the instructions that follow `i` says this of it. What is known changes three times at most. */
static int join(struct ends *e, size_t i, const struct code_end *says)
{
	struct code_end *end = &e->v[i];

	if (end->kind == CODE_END_NONE) {
		end->kind = says->kind;
		end->back = says->back;
		return enqueue(e, i);
	}
	if (end->kind == CODE_END_DOUBTFUL)
		return 0;
	if (says->kind == CODE_END_DOUBTFUL || !flow_back_same(&end->back, &says->back))
		end->kind = CODE_END_DOUBTFUL;
	else if (end->back.guessed && !says->back.guessed)
		end->back.guessed = false;
	else
		return 0;
	return enqueue(e, i);
}

/* To the instruction before, if the frame is lost there, too. */
static int step_back(struct ends *e, size_t i)
{
	struct code_end says = e->v[i];
	struct x86_insn insn;

	if (i == 0 || e->v[i - 1].off + e->v[i - 1].len != e->v[i].off)
		return 0;
	insn = insn_of(e, i - 1);
	if (insn.op != X86_BRANCH && !flow_back_step(&says.back, &insn))
		return 0;
	return join(e, i - 1, &says);
}

/* To those that jump there. */
static int jump_back(struct ends *e, size_t i)
{
	int r = 0;

	for (size_t k = array_first(e->n_edges, m, e->edges[m].to >= i);
	     k < e->n_edges && e->edges[k].to == i && r == 0; k++)
		r = join(e, e->edges[k].from, &e->v[i]);
	return r;
}

int code_ends_follow(const uint8_t *code, struct code_end *v, size_t n)
{
	struct ends e = {.code = code, .v = v, .n = n};
	int r = read_edges(&e);

	for (size_t i = 0; i < n && r == 0; i++)
		if (v[i].kind != CODE_END_NONE)
			r = enqueue(&e, i);
	while (e.n_queue && r == 0) {
		const uint32_t i = e.queue[--e.n_queue];

		r = step_back(&e, i);
		if (r == 0)
			r = jump_back(&e, i);
	}
	free(e.edges);
	free(e.queue);
	return r;
}
