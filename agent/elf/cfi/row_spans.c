// SPDX-License-Identifier: Apache-2.0
/*
 * Combines overlapping spans. A sweep visits the spans in the order of their starts. A heap holds the spans
 * that contain the current address, with the one that applies on top. Between two events (the start of a
 * span, the end of the top one) the rows of the top are copied. In real sections overlaps are rare, so that
 * the heap mostly holds one span. Each event copies one part of one span, so the result has at most rows + 4
 * * spans + 1 rows, however the spans overlap.
 */
#include "agent/elf/cfi/row_spans.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"

#define DIGIT_BITS 11
#define DIGITS (1u << DIGIT_BITS)

DEFINE_CLEANUP(struct elf_rows *, elf_rows_free)

int row_spans_init(struct row_spans *spans, const struct elf_segment *segments, size_t n_segments)
{
	spans->segments = segments;
	spans->n_segments = n_segments;
	spans->skipped = calloc(ELF_SKIPPED_MAX, sizeof(*spans->skipped));
	if (!spans->skipped)
		return -ENOMEM;
	return cfi_output_init(&spans->out);
}

void row_spans_fini(struct row_spans *spans)
{
	cfi_output_fini(&spans->out);
	free(spans->v);
	free(spans->skipped);
	free(spans->overridden);
	*spans = (struct row_spans){0};
}

static void note_skipped(struct row_spans *spans, struct elf_skipped skipped)
{
	if (spans->n_skipped < ELF_SKIPPED_MAX)
		spans->skipped[spans->n_skipped] = skipped;
	spans->n_skipped++;
}

void row_spans_skip(struct row_spans *spans, enum elf_source source, uint64_t offset, const char *reason)
{
	note_skipped(spans,
		     (struct elf_skipped){.offset = offset, .reason = reason, .source = (uint8_t)source});
}

void row_spans_skip_part(struct row_spans *spans, enum elf_source source, uint64_t offset, const char *reason)
{
	note_skipped(spans,
		     (struct elf_skipped){
			     .offset = offset, .reason = reason, .source = (uint8_t)source, .in_part = true});
}

int row_spans_note_override(struct row_spans *spans, uint64_t start, uint64_t end, const char *name)
{
	if (!spans->overridden)
		spans->overridden = calloc(ELF_OVERRIDDEN_MAX, sizeof(*spans->overridden));
	if (!spans->overridden)
		return -ENOMEM;
	if (spans->n_overridden < ELF_OVERRIDDEN_MAX)
		spans->overridden[spans->n_overridden] =
			(struct elf_overridden){.start = start, .end = end, .name = name};
	spans->n_overridden++;
	return 0;
}

static bool find_segment(struct row_spans *spans, uint64_t start)
{
	for (size_t i = 0; i < spans->n_segments; i++) {
		const struct elf_segment *s = &spans->segments[i];

		if (!s->executable || start < s->va || start - s->va >= s->mem_bytes)
			continue;
		spans->segment = s;
		return true;
	}
	return false;
}

bool row_spans_clip(struct row_spans *spans, uint64_t start, uint64_t *end)
{
	const struct elf_segment *s = spans->segment; /* usually the segment of the previous span */

	if (spans->n_segments == 0)
		return true;
	if ((!s || start < s->va || start - s->va >= s->mem_bytes) && !find_segment(spans, start))
		return false;
	s = spans->segment;
	if (*end > s->va + s->mem_bytes)
		*end = s->va + s->mem_bytes;
	return true;
}

int row_spans_add(struct row_spans *spans, uint64_t start, uint64_t end, size_t first, enum elf_source source)
{
	int r = array_reserve(&spans->v, &spans->cap, spans->n + 1, sizeof(*spans->v));

	if (r < 0)
		return r;
	if (spans->n_sorted == spans->n && (!spans->n || start >= spans->v[spans->n - 1].start))
		spans->n_sorted++;
	spans->v[spans->n++] = (struct row_span){
		.start = start,
		.end = end,
		.first = (uint32_t)first,
		.n = (uint32_t)(spans->out.n_rows - first) & SPAN_ROWS_MAX,
		.source = source,
	};
	return 0;
}

struct sweep {
	const struct row_spans *from;
	struct elf_rows *to;
	const uint32_t
		*order; /* spans in the order of their starts; the number of a span is its position here */
	uint32_t *heap; /* numbers of spans, the innermost first */
	size_t n_heap;
	uint64_t covered_to; /* end of the rows written so far */
};

/* One pass of a stable radix sort, by the digit at `shift` of the distance from `min`. */
static void sort_pass(const struct row_span *spans, const uint32_t *from, uint32_t *to, size_t n,
		      uint64_t min, unsigned shift)
{
	uint32_t count[DIGITS] = {0}, at = 0;

	for (size_t i = 0; i < n; i++)
		count[(spans[from[i]].start - min) >> shift & (DIGITS - 1)]++;
	for (size_t i = 0; i < DIGITS; i++) {
		uint32_t here = count[i];

		count[i] = at;
		at += here;
	}
	for (size_t i = 0; i < n; i++)
		to[count[(spans[from[i]].start - min) >> shift & (DIGITS - 1)]++] = from[i];
}

/* Sorts `n` numbers of spans, at `order` or at `spare`; returns where they are. */
static uint32_t *sort_numbers(const struct row_span *spans, uint32_t *order, uint32_t *spare, size_t n)
{
	uint64_t min = UINT64_MAX, max = 0;

	for (size_t i = 0; i < n; i++) {
		const uint64_t start = spans[order[i]].start;

		min = start < min ? start : min;
		max = start > max ? start : max;
	}
	for (unsigned shift = 0; shift < 64 && n && (max - min) >> shift; shift += DIGIT_BITS) {
		uint32_t *sorted = spare;

		sort_pass(spans, order, sorted, n, min, shift);
		spare = order;
		order = sorted;
	}
	return order;
}

/*
 * Writes the order of the spans to `order`; of equal starts, the first in the section comes first. What was
 * added since they were sorted is sorted by itself, in `spare`, which is as large, and merged.
 */
static void sort_spans(const struct row_spans *spans, uint32_t *order, uint32_t *spare)
{
	const size_t n = spans->n - spans->n_sorted;
	const uint32_t *added = spare;
	size_t next = 0, at = 0;

	for (size_t i = 0; i < n; i++)
		spare[i] = (uint32_t)(spans->n_sorted + i);
	added = sort_numbers(spans->v, spare, order + spans->n_sorted, n);
	for (size_t i = 0; i < spans->n_sorted; i++) {
		while (next < n && spans->v[added[next]].start < spans->v[i].start)
			order[at++] = added[next++];
		order[at++] = (uint32_t)i;
	}
	while (next < n)
		order[at++] = added[next++];
}

int row_spans_sort(struct row_spans *spans)
{
	_cleanup_free_ uint32_t *order = NULL;
	_cleanup_free_ struct row_span *v = NULL;

	if (spans->n_sorted == spans->n)
		return 0;
	order = malloc(2 * spans->n * sizeof(*order));
	v = malloc(spans->n * sizeof(*v));
	if (!order || !v)
		return -ENOMEM;
	sort_spans(spans, order, order + spans->n);
	for (size_t i = 0; i < spans->n; i++)
		v[i] = spans->v[order[i]];
	free(spans->v);
	spans->v = TAKE_PTR(v);
	spans->cap = spans->n;
	spans->n_sorted = spans->n;
	return 0;
}

static const struct row_span *span_at(const struct sweep *s, size_t number)
{
	return &s->from->v[s->order[number]];
}

/* A span with a larger number starts later, or at the same address but later in the section. */
static bool is_inner(const struct sweep *s, uint32_t a, uint32_t b)
{
	const struct row_span *x = span_at(s, a), *y = span_at(s, b);

	if (x->source != y->source)
		return x->source < y->source;
	return x->start != y->start ? a > b : a < b;
}

static void heap_push(struct sweep *s, uint32_t span)
{
	size_t at = s->n_heap++;

	while (at > 0 && is_inner(s, span, s->heap[(at - 1) / 2])) {
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

		if (child + 1 < s->n_heap && is_inner(s, s->heap[child + 1], s->heap[child]))
			child++;
		if (child >= s->n_heap || !is_inner(s, s->heap[child], last))
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

/* The first row of the span behind `off`. */
static size_t row_after(const struct cfi_row *rows, size_t n, uint64_t off)
{
	return array_first(n, i, rows[i].off > off);
}

/* A span without a rule says that nothing is known of this code. */
static bool says_nothing(const struct row_spans *from, const struct row_span *span)
{
	return span->source == ELF_CODE && span->n == 1 && from->out.rows[span->first].rule == 0;
}

static void count_covered(struct sweep *s, const struct row_span *span, uint64_t bytes)
{
	struct elf_rows *to = s->to;

	if (says_nothing(s->from, span))
		return;
	to->covered_bytes += bytes;
	if (span->source != ELF_CODE)
		to->described_bytes += bytes;
}

/* Copies the rows of `span` for the addresses [from, to). */
static void copy_part(struct sweep *s, const struct row_span *span, uint64_t from, uint64_t to)
{
	const struct cfi_row *rows = s->from->out.rows + span->first;
	const uint64_t start = span->start, n = span->n;
	size_t i = from == start ? 1 : row_after(rows, n, from - start);

	if (s->to->n_rows && from - s->covered_to >= ELF_GAP_MIN)
		put_row(s->to, s->covered_to, 0);
	else if (s->to->n_rows)
		count_covered(s, span, from - s->covered_to);
	count_covered(s, span, to - from);
	put_row(s->to, from, rows[i - 1].rule);
	struct elf_row *out = s->to->rows + s->to->n_rows;
	uint32_t last = rows[i - 1].rule;
	for (; i < n && rows[i].off < to - start; i++) {
		const struct cfi_row row = rows[i];

		out->va = start + row.off;
		out->rule = row.rule;
		out += row.rule != last; /* no branch, since it would be mispredicted too often */
		last = row.rule;
	}
	s->to->n_rows = (size_t)(out - s->to->rows);
	s->covered_to = to;
}

/* Copies the rows from `at` to the next event, and returns its address. */
static uint64_t sweep_overlap(struct sweep *s, uint64_t at, size_t *next)
{
	size_t n = s->from->n;

	for (; *next < n && span_at(s, *next)->start <= at; ++*next)
		heap_push(s, (uint32_t)*next);
	const struct row_span *top = span_at(s, s->heap[0]);
	uint64_t end = top->end;
	if (end <= at)
		return at;
	if (*next < n && span_at(s, *next)->start < end)
		end = span_at(s, *next)->start;
	copy_part(s, top, at, end);
	return end;
}

static void sweep(struct sweep *s)
{
	size_t n = s->from->n, next = 0;
	uint64_t at = 0;

	while (next < n || s->n_heap) {
		while (s->n_heap && span_at(s, s->heap[0])->end <= at)
			heap_pop(s);
		if (!s->n_heap) {
			if (next == n)
				break;
			const struct row_span *span = span_at(s, next);
			at = span->start > at ? span->start : at;
			/* usually no other span begins before its end */
			if (at == span->start && at < span->end &&
			    (next + 1 == n || span_at(s, next + 1)->start >= span->end)) {
				at = span->end;
				copy_part(s, span, span->start, at);
				next++;
				continue;
			}
		}
		at = sweep_overlap(s, at, &next);
	}
	put_row(s->to, s->covered_to, 0);
}

int row_spans_lay_out(struct row_spans *spans, struct elf_rows **ret)
{
	_cleanup_(elf_rows_free_p) struct elf_rows *t = NULL;
	_cleanup_free_ uint32_t *order = NULL;

	if (spans->n == 0)
		return -ENODATA;
	t = calloc(1, sizeof(*t));
	order = malloc(3 * spans->n * sizeof(*order)); /* the order, the scratch space to sort it, the heap */
	if (!t || !order)
		return -ENOMEM;
	t->rows = malloc((spans->out.n_rows + 4 * spans->n + 1) * sizeof(*t->rows));
	if (!t->rows)
		return -ENOMEM;
	struct sweep s = {.from = spans, .to = t, .order = order, .heap = order + 2 * spans->n};
	sort_spans(spans, order, order + spans->n);
	sweep(&s);
	if (t->n_rows < 2)
		return -ENODATA; /* there are only Go functions without rows */
	(void)array_resize(&t->rows, t->n_rows,
			   sizeof(*t->rows)); /* on failure the block stays larger than necessary */
	t->rules = TAKE_PTR(spans->out.rules.rules);
	t->n_rules = spans->out.rules.n;
	t->skipped = TAKE_PTR(spans->skipped);
	t->n_skipped = spans->n_skipped;
	t->overridden = TAKE_PTR(spans->overridden);
	t->n_overridden = spans->n_overridden;
	t->n_fdes = spans->n_fdes;
	t->n_functions = spans->n_functions;
	*ret = TAKE_PTR(t);
	return 0;
}
