// SPDX-License-Identifier: Apache-2.0
/* Which code no span covers, section by section. */
#include "agent/elf/code/asmrows.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/code/x86.h"

/* Padding behind a span belongs to it: some functions go on through it into the next (glibc's checking
 * copies). */
static int read_padding(struct row_spans *spans, const struct row_span *before, uint64_t va,
			const uint8_t *code, uint32_t n)
{
	const uint32_t end = x86_nops(code, n), rule = spans->out.rows[before->first + before->n - 1].rule;
	const size_t first = spans->out.n_rows;
	int r;

	if (end < ELF_GAP_MIN || x86_sigreturn(code + end, n - end))
		return 0;
	r = spans->out.n_rows == spans->out.rows_cap ? cfi_output_grow(&spans->out) : 0;
	if (r < 0)
		return r;
	spans->out.rows[spans->out.n_rows++] = (struct cfi_row){.rule = rule};
	return row_spans_add(spans, va, va + end, first, ELF_CODE);
}

/* [start, end) lies in the section and in no span; `before` ends at start, or is NULL. */
static int read_gap(struct row_spans *spans, const struct elf_image *img, const struct elf_section *section,
		    const struct row_span *before, uint64_t start, uint64_t end)
{
	const struct row_span span = before ? *before : (struct row_span){0};
	int r = 0;

	for (bool first = true; start < end && r == 0; first = false) {
		const bool last = end - start <= ASM_CHUNK_BYTES;
		uint32_t n = last ? (uint32_t)(end - start) : ASM_CHUNK_BYTES, done = n;
		_cleanup_free_ uint8_t *code = malloc(n);

		if (!code)
			return -ENOMEM;
		if (elf_image_pread(img, section->offset + (start - section->va), code, n) < 0)
			return 0;
		if (first && span.n && span.end == start)
			r = read_padding(spans, &span, start, code, n);
		if (r == 0)
			r = asmrows_read_code(spans, start, code, n, last, &done);
		start += done;
	}
	return r;
}

static int read_section(struct row_spans *spans, const struct elf_image *img,
			const struct elf_section *section, size_t n_spans, uint64_t *budget)
{
	uint64_t at = section->va, end = section->va + section->bytes;
	const struct row_span *before = NULL;

	for (size_t i = 0; i <= n_spans && at < end; i++) {
		const struct row_span *next = i < n_spans ? &spans->v[i] : NULL;
		uint64_t stop = next && next->start < end ? next->start : end;

		if (next && next->end <= at)
			continue;
		if (stop > at && stop - at >= ELF_GAP_MIN && stop - at <= *budget) {
			int r = read_gap(spans, img, section, before, at, stop);
			if (r < 0)
				return r;
			*budget -= stop - at;
		}
		if (!next)
			break;
		before = &spans->v[i]; /* spans may have moved */
		at = before->end > at ? before->end : at;
	}
	return 0;
}

int asmrows_read(struct row_spans *spans, const struct elf_image *img)
{
	uint64_t budget = ASM_BYTES_MAX;
	size_t n_spans, n_sections = elf_image_n_sections(img);
	int r;

	if (elf_image_machine(img) != EM_X86_64 || spans->n == 0 || spans->n_functions > 0)
		return 0;
	r = row_spans_sort(spans);
	n_spans = spans->n;
	for (size_t i = 1; i < n_sections && r == 0; i++) {
		struct elf_section section;
		uint64_t end;

		if (!elf_image_section_header(img, i, &section) || section.type != SHT_PROGBITS ||
		    !(section.flags & SHF_EXECINSTR) || section.va + section.bytes < section.va)
			continue;
		end = section.va + section.bytes;
		if (!row_spans_clip(spans, section.va, &end))
			continue;
		section.bytes = end - section.va;
		r = read_section(spans, img, &section, n_spans, &budget);
	}
	return r;
}
