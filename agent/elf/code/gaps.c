// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/code/gaps.h"

#include <elf.h>
#include <stdlib.h>

#include "agent/base/array.h"
#include "agent/elf/file/elf_image.h"

/*
 * Bytes. Shorter gaps in a Go binary are padding between functions; longer ones are the C code of cgo, whose
 * call-frame information Go's own linker leaves out.
 */
#define GO_FUNCTION_ALIGNMENT 32u

struct search {
	struct row_spans *spans;
	const struct elf_image *img;
	struct code_gaps *gaps; /* those that were found */
	size_t n_spans;		/* 0: all code is wanted */
	uint64_t least, budget; /* bytes of a gap; of all */
	uint64_t from;		/* the end of the range before */
	size_t passed;		/* spans that end before it */
};

/* Code at [start, end), whose first byte is at `offset` in the file. */
struct range {
	uint64_t start, end, offset;
};

static int add_gap(struct search *s, const struct range *range, uint64_t start, uint64_t end,
		   const struct row_span *before)
{
	struct code_gaps *g = s->gaps;
	int r;

	if (end - start < s->least || end - start > s->budget)
		return 0;
	s->budget -= end - start;
	r = array_reserve(&g->v, &g->cap, g->n + 1, sizeof *g->v);
	if (r < 0)
		return r;
	g->v[g->n] = (struct code_gap){start, end, range->offset + (start - range->start), {0}};
	if (before && before->end == start)
		g->v[g->n].before = *before;
	g->n++;
	return 0;
}

static int search_range(struct search *s, struct range range)
{
	const struct row_span *before = NULL, *next;
	uint64_t at = range.start;
	size_t i = range.start >= s->from ? s->passed : 0;
	int r = 0;

	if (!row_spans_clip(s->spans, range.start, &range.end))
		return 0;
	for (; i < s->n_spans && at < range.end && r == 0; i++) {
		next = &s->spans->v[i];
		if (next->end <= at)
			continue;
		if (next->start > at && next->start - at >= s->least)
			r = add_gap(s, &range, at, next->start < range.end ? next->start : range.end, before);
		before = next;
		at = next->end;
	}
	s->passed = i ? i - 1 : 0; /* the last one may extend beyond the range */
	s->from = range.end;
	return r == 0 && at < range.end ? add_gap(s, &range, at, range.end, before) : r;
}

static int search_sections(struct search *s, size_t n)
{
	int r = 0;

	for (size_t i = 1; i < n && r == 0; i++) {
		struct elf_section section;

		if (elf_image_section_header(s->img, i, &section) && section.type == SHT_PROGBITS &&
		    section.flags & SHF_EXECINSTR && section.va + section.bytes >= section.va)
			r = search_range(
				s, (struct range){section.va, section.va + section.bytes, section.offset});
	}
	return r;
}

static int search_segments(struct search *s)
{
	size_t n;
	const struct elf_segment *v = elf_image_segments(s->img, &n);
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++)
		if (v[i].executable && v[i].va + v[i].file_bytes >= v[i].va)
			r = search_range(s, (struct range){v[i].va, v[i].va + v[i].file_bytes, v[i].offset});
	return r;
}

static int search_all(struct search *s)
{
	const size_t n_sections = elf_image_n_sections(s->img);

	return n_sections ? search_sections(s, n_sections) : search_segments(s);
}

uint64_t code_bytes(const struct elf_image *img)
{
	const uint64_t code = SHF_ALLOC | SHF_EXECINSTR;
	size_t n = elf_image_n_sections(img);
	struct elf_section section;
	uint64_t sum = 0;

	for (size_t i = 1; i < n; i++) {
		if (elf_image_section_header(img, i, &section) && section.type != SHT_NOBITS &&
		    (section.flags & code) == code)
			sum += section.bytes;
	}
	if (n > 1)
		return sum;
	const struct elf_segment *s = elf_image_segments(img, &n);
	for (size_t i = 0; i < n; i++)
		sum += s[i].executable ? s[i].file_bytes : 0;
	return sum;
}

void code_gaps_fini(struct code_gaps *gaps)
{
	free(gaps->v);
	*gaps = (struct code_gaps){0};
}

static int compare_gaps(const void *a, const void *b)
{
	const struct code_gap *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

int code_gaps_find(struct code_gaps *gaps, struct row_spans *spans, const struct elf_image *img)
{
	struct search s = {.spans = spans, .img = img, .gaps = gaps};
	int r;

	if (gaps->found && gaps->n_spans == spans->n)
		return 0;
	r = row_spans_sort(spans);
	if (r < 0)
		return r;
	gaps->n = 0;
	gaps->n_spans = s.n_spans = spans->n;
	s.budget = GAPS_BYTES_MAX;
	s.least = spans->n_functions ? GO_FUNCTION_ALIGNMENT : ELF_GAP_MIN;
	r = search_all(&s);
	if (gaps->n) /* sections may have another order */
		qsort(gaps->v, gaps->n, sizeof *gaps->v, compare_gaps);
	gaps->found = r == 0;
	return r;
}

static int visit_each(const struct code_gaps *gaps, struct row_spans *spans, const struct elf_image *img,
		      code_gap_visitor *visit, void *data)
{
	int r = 0;

	for (size_t i = 0; i < gaps->n && r == 0; i++)
		r = visit(spans, img, &gaps->v[i], data);
	return r;
}

int code_gaps_visit(struct code_gaps *gaps, struct row_spans *spans, const struct elf_image *img,
		    code_gap_visitor *visit, void *data)
{
	int r = code_gaps_find(gaps, spans, img);

	return r < 0 ? r : visit_each(gaps, spans, img, visit, data);
}

int code_ranges_visit(struct row_spans *spans, const struct elf_image *img, code_gap_visitor *visit,
		      void *data)
{
	struct code_gaps ranges = {0};
	struct search s = {
		.spans = spans, .img = img, .gaps = &ranges, .least = ELF_GAP_MIN, .budget = GAPS_BYTES_MAX};
	int r = search_all(&s);

	if (r == 0)
		r = visit_each(&ranges, spans, img, visit, data);
	code_gaps_fini(&ranges);
	return r;
}
