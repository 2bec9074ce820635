// SPDX-License-Identifier: Apache-2.0
/*
 * Collects the rows of all FDEs, Go functions and other sources as spans of addresses, and combines
 * overlapping spans into one sorted table. Rank 1, private to elf/.
 */
#ifndef PROFLET_ELF_ROW_SPANS_H
#define PROFLET_ELF_ROW_SPANS_H

#include "agent/elf/cfi/cfi_output.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/cfi/rows.h"

#define SPAN_ROWS_BITS 28
#define SPAN_ROWS_MAX ((1u << SPAN_ROWS_BITS) - 1) /* more than CFI_ROWS_MAX */

/* The range of one FDE or Go function, and the place of its rows. */
struct row_span {
	uint64_t start, end;
	uint32_t first; /* index in cfi_output.rows */
	uint32_t n : SPAN_ROWS_BITS;
	uint32_t source : 4; /* enum elf_source */
};

/* The parts of a table while it is made. Zero it, then call row_spans_init. */
struct row_spans {
	struct cfi_output out;
	struct row_span *v; /* owned */
	size_t n, cap;
	size_t n_sorted;	     /* so many of the first spans are in the order of their starts */
	struct elf_skipped *skipped; /* owned, ELF_SKIPPED_MAX entries */
	size_t n_skipped, n_fdes, n_functions;
	struct elf_overridden *overridden; /* owned, ELF_OVERRIDDEN_MAX entries; NULL if none */
	size_t n_overridden;
	const struct elf_segment
		*segments; /* borrowed; if there are none, every address counts as executable */
	size_t n_segments;
	const struct elf_segment *segment; /* the segment that row_spans_clip found last */
};

int row_spans_init(struct row_spans *spans, const struct elf_segment *segments, size_t n_segments);
void row_spans_fini(struct row_spans *spans);
/* Shortens a range to the executable segment in which it starts. False if it starts in none. */
bool row_spans_clip(struct row_spans *spans, uint64_t start, uint64_t *end);
/* Adds a span [start, end) with the rows from `first` to the last one written. 0 or -ENOMEM. */
int row_spans_add(struct row_spans *spans, uint64_t start, uint64_t end, size_t first,
		  enum elf_source source);
/* Sorts the spans by start; equal ones stay in the order in which they were added. 0 or -ENOMEM. */
int row_spans_sort(struct row_spans *spans);
void row_spans_skip(struct row_spans *spans, enum elf_source source, uint64_t offset, const char *reason);
/* The same for an entry of which some rows were added. */
void row_spans_skip_part(struct row_spans *spans, enum elf_source source, uint64_t offset,
			 const char *reason);
/* Records that the rows of [start, end) replace those of an FDE. `name` is a static string. 0 or -ENOMEM. */
int row_spans_note_override(struct row_spans *spans, uint64_t start, uint64_t end, const char *name);
/* Makes the table (all fields but build_ns). 0, -ENODATA when there is no row, -ENOMEM. */
int row_spans_lay_out(struct row_spans *spans, struct elf_rows **ret);

#endif
