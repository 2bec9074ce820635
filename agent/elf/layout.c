// SPDX-License-Identifier: Apache-2.0
/*
 * Lays the FDEs' rows over each other. A sweep over the spans in order of their starts keeps those that reach
 * over the present address in a heap, the one that holds on top; between two events (a start, the end
 * of the top) the rows of the top are copied. Real sections overlap almost never: the heap then holds one
 * span. Each event copies one part of one span, so the result has at most rows + 4 * spans + 1 rows, however
 * the spans overlap.
 */
#include "agent/elf/fdes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"

#define DIGIT_BITS 11
#define DIGITS (1u << DIGIT_BITS)

DEFINE_CLEANUP(struct elf_rows *, elf_rows_free)

struct sort_key {
	uint64_t start; /* relative to the smallest */
	uint32_t span;
};

struct sweep {
	const struct fdes *f;
	struct elf_rows *to;
	uint32_t *heap; /* spans, the innermost first */
	size_t n_heap;
	uint64_t covered_to; /* end of what was written last */
};

/* Stable radix sort, so that the order in the section decides between equal starts. `keys` and `spare` trade
 * places. */
static struct sort_key *sort_keys(struct sort_key *keys, struct sort_key *spare, size_t n, uint64_t max)
{
	for (unsigned shift = 0; shift < 64 && max >> shift; shift += DIGIT_BITS) {
		size_t count[DIGITS] = {0};
		size_t at = 0;

		for (size_t i = 0; i < n; i++)
			count[keys[i].start >> shift & (DIGITS - 1)]++;
		for (size_t i = 0; i < DIGITS; i++) {
			size_t here = count[i];

			count[i] = at;
			at += here;
		}
		for (size_t i = 0; i < n; i++)
			spare[count[keys[i].start >> shift & (DIGITS - 1)]++] = keys[i];
		struct sort_key *sorted = spare;
		spare = keys;
		keys = sorted;
	}
	return keys;
}

static int sort_spans(struct fdes *f)
{
	_cleanup_free_ struct sort_key *keys = NULL, *spare = NULL;
	_cleanup_free_ struct fde_span *spans = NULL;
	uint64_t min = UINT64_MAX, max = 0;

	if (!f->unsorted)
		return 0;
	keys = calloc(f->n_spans, sizeof(*keys));
	spare = calloc(f->n_spans, sizeof(*spare));
	spans = calloc(f->n_spans, sizeof(*spans));
	if (!keys || !spare || !spans)
		return -ENOMEM;
	for (size_t i = 0; i < f->n_spans; i++)
		min = f->spans[i].start < min ? f->spans[i].start : min;
	for (size_t i = 0; i < f->n_spans; i++) {
		keys[i] = (struct sort_key){.start = f->spans[i].start - min, .span = (uint32_t)i};
		max = keys[i].start > max ? keys[i].start : max;
	}
	const struct sort_key *sorted = sort_keys(keys, spare, f->n_spans, max);
	for (size_t i = 0; i < f->n_spans; i++)
		spans[i] = f->spans[sorted[i].span];
	free(f->spans);
	f->spans = TAKE_PTR(spans);
	f->spans_cap = f->n_spans;
	f->unsorted = false;
	return 0;
}

/* Spans are sorted by now: a larger index starts later, or together but later in the section. */
static bool is_inner(const struct fdes *f, uint32_t a, uint32_t b)
{
	const struct fde_span *x = &f->spans[a], *y = &f->spans[b];

	if (x->source != y->source)
		return x->source < y->source;
	return x->start != y->start ? a > b : a < b;
}

static void heap_push(struct sweep *s, uint32_t span)
{
	size_t at = s->n_heap++;

	while (at > 0 && is_inner(s->f, span, s->heap[(at - 1) / 2])) {
		s->heap[at] = s->heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	s->heap[at] = span;
}

static void heap_pop(struct sweep *s)
{
	uint32_t last = s->heap[--s->n_heap];
	size_t at = 0;

	for (;;) {
		size_t child = 2 * at + 1;

		if (child + 1 < s->n_heap && is_inner(s->f, s->heap[child + 1], s->heap[child]))
			child++;
		if (child >= s->n_heap || !is_inner(s->f, s->heap[child], last))
			break;
		s->heap[at] = s->heap[child];
		at = child;
	}
	s->heap[at] = last;
}

static void put_row(struct elf_rows *to, uint64_t va, uint32_t rule)
{
	if (to->n_rows && to->rows[to->n_rows - 1].rule == rule)
		return;
	to->rows[to->n_rows++] = (struct elf_row){.va = va, .rule = rule};
}

/* First row of the span that starts behind `off`. */
static size_t row_after(const struct cfi_row *rows, size_t n, uint64_t off)
{
	size_t low = 0;

	while (n > 0) {
		size_t half = n / 2;

		if (rows[low + half].off <= off) {
			low += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return low;
}

/* Copies the rows of `span` for the addresses [from, to). */
static void copy_part(struct sweep *s, const struct fde_span *span, uint64_t from, uint64_t to)
{
	const struct cfi_row *rows = s->f->out.rows + span->first;
	size_t i = from == span->start ? 1 : row_after(rows, span->n, from - span->start);

	if (s->to->n_rows && from - s->covered_to >= ELF_GAP_MIN)
		put_row(s->to, s->covered_to, 0);
	put_row(s->to, from, rows[i - 1].rule);
	struct elf_row *out = s->to->rows + s->to->n_rows;
	uint64_t last = rows[i - 1].rule;
	for (; i < span->n && rows[i].off < to - span->start; i++) {
		if (rows[i].rule == last)
			continue;
		last = rows[i].rule;
		*out++ = (struct elf_row){.va = span->start + rows[i].off, .rule = rows[i].rule};
	}
	s->to->n_rows = (size_t)(out - s->to->rows);
	s->covered_to = to;
}

static void sweep(struct sweep *s)
{
	const struct fde_span *spans = s->f->spans;
	size_t n = s->f->n_spans, next = 0;
	uint64_t at = 0;

	while (next < n || s->n_heap) {
		while (s->n_heap && spans[s->heap[0]].end <= at)
			heap_pop(s);
		if (!s->n_heap) {
			if (next == n)
				break;
			at = spans[next].start > at ? spans[next].start : at;
		}
		for (; next < n && spans[next].start <= at; next++)
			heap_push(s, (uint32_t)next);
		const struct fde_span *top = &spans[s->heap[0]];
		if (top->end <= at)
			continue;
		uint64_t to = next < n && spans[next].start < top->end ? spans[next].start : top->end;
		copy_part(s, top, at, to);
		at = to;
	}
	put_row(s->to, s->covered_to, 0);
}

static void shrink(struct elf_rows *t)
{
	struct elf_row *rows = realloc(t->rows, t->n_rows * sizeof(*rows));

	if (rows)
		t->rows = rows;
}

int fdes_lay_out(struct fdes *f, struct elf_rows **ret)
{
	_cleanup_(elf_rows_free_p) struct elf_rows *t = NULL;
	_cleanup_free_ uint32_t *heap = NULL;

	if (f->n_spans == 0)
		return -ENODATA;
	int r = sort_spans(f);
	if (r < 0)
		return r;
	t = calloc(1, sizeof(*t));
	heap = calloc(f->n_spans, sizeof(*heap));
	if (!t || !heap)
		return -ENOMEM;
	t->rows = malloc((f->out.n_rows + 4 * f->n_spans + 1) * sizeof(*t->rows));
	if (!t->rows)
		return -ENOMEM;
	struct sweep s = {.f = f, .to = t, .heap = heap};
	sweep(&s);
	if (t->n_rows < 2)
		return -ENODATA; /* Go functions of which nothing is known */
	shrink(t);
	t->rules = TAKE_PTR(f->out.rules.rules);
	t->n_rules = f->out.rules.n;
	t->skipped = TAKE_PTR(f->skipped);
	t->n_skipped = f->n_skipped;
	t->n_fdes = f->n_fdes;
	t->n_functions = f->n_functions;
	*ret = TAKE_PTR(t);
	return 0;
}
