// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/code/gaps.h"

#include <elf.h>

#include "agent/elf/file/elf_image.h"

/*
 * Bytes. Shorter gaps in a Go binary are padding between functions; longer ones are the C code of cgo, whose
 * call-frame information Go's own linker leaves out.
 */
#define GO_FUNCTION_ALIGNMENT 32u

struct visit {
	struct row_spans *spans;
	const struct elf_image *img;
	size_t n_spans;		/* that there were at first; 0: gaps are of no interest */
	uint64_t least, budget; /* bytes of a gap; of all */
	int (*fn)(struct row_spans *spans, const struct elf_image *img, const struct code_gap *gap,
		  void *data);
	void *data;
};

/* Code at [start, end), whose first byte is at `offset` in the file. */
struct range {
	uint64_t start, end, offset;
};

static int visit_gap(struct visit *v, const struct range *range, uint64_t start, uint64_t end,
		     const struct row_span *before)
{
	struct code_gap gap = {start, end, range->offset + (start - range->start), {0}};

	if (end <= start || end - start < v->least || end - start > v->budget)
		return 0;
	v->budget -= end - start;
	if (before && before->end == start)
		gap.before = *before;
	return v->fn(v->spans, v->img, &gap, v->data);
}

static int visit_range(struct visit *v, struct range range)
{
	const struct row_span *before = NULL;
	uint64_t at = range.start;
	int r = 0;

	if (!row_spans_clip(v->spans, range.start, &range.end))
		return 0;
	for (size_t i = 0; i <= v->n_spans && at < range.end && r == 0; i++) {
		const struct row_span *next = i < v->n_spans ? &v->spans->v[i] : NULL;

		if (next && next->end <= at)
			continue;
		r = visit_gap(v, &range, at, next && next->start < range.end ? next->start : range.end,
			      before);
		if (!next)
			break;
		before = &v->spans->v[i]; /* the array may have moved */
		at = before->end > at ? before->end : at;
	}
	return r;
}

static int visit_sections(struct visit *v, size_t n)
{
	int r = 0;

	for (size_t i = 1; i < n && r == 0; i++) {
		struct elf_section s;

		if (elf_image_section_header(v->img, i, &s) && s.type == SHT_PROGBITS &&
		    s.flags & SHF_EXECINSTR && s.va + s.bytes >= s.va)
			r = visit_range(v, (struct range){s.va, s.va + s.bytes, s.offset});
	}
	return r;
}

static int visit_segments(struct visit *v)
{
	size_t n;
	const struct elf_segment *s = elf_image_segments(v->img, &n);
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++)
		if (s[i].executable && s[i].va + s[i].file_bytes >= s[i].va)
			r = visit_range(v, (struct range){s[i].va, s[i].va + s[i].file_bytes, s[i].offset});
	return r;
}

static int visit_all(struct visit *v)
{
	const size_t n_sections = elf_image_n_sections(v->img);

	return n_sections ? visit_sections(v, n_sections) : visit_segments(v);
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

int code_gaps_visit(struct row_spans *spans, const struct elf_image *img, uint64_t budget,
		    int (*visit)(struct row_spans *spans, const struct elf_image *img,
				 const struct code_gap *gap, void *data),
		    void *data)
{
	struct visit v = {.spans = spans, .img = img, .budget = budget, .fn = visit, .data = data};
	int r = row_spans_sort(spans);

	v.least = spans->n_functions ? GO_FUNCTION_ALIGNMENT : ELF_GAP_MIN;
	v.n_spans = spans->n;
	if (r < 0)
		return r;
	return visit_all(&v);
}

int code_ranges_visit(struct row_spans *spans, const struct elf_image *img, uint64_t budget,
		      int (*visit)(struct row_spans *spans, const struct elf_image *img,
				   const struct code_gap *gap, void *data),
		      void *data)
{
	struct visit v = {.spans = spans,
			  .img = img,
			  .least = ELF_GAP_MIN,
			  .budget = budget,
			  .fn = visit,
			  .data = data};

	return visit_all(&v);
}
