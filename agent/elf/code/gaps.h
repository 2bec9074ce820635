// SPDX-License-Identifier: Apache-2.0
/* Visits the executable code of a file, or the part that no span of rows covers. Rank 1, private to elf/. */
#ifndef PROFLET_ELF_GAPS_H
#define PROFLET_ELF_GAPS_H

#include "agent/elf/cfi/row_spans.h"

/* Bytes of the executable sections, or of the executable segments if the file has no section headers. */
uint64_t code_bytes(const struct elf_image *img);

struct code_gap {
	uint64_t start, end; /* at least ELF_GAP_MIN bytes */
	uint64_t offset;     /* of `start` in the file */
	/* the span that ends at `start`, as it was when the visit began; n is 0: there is none */
	struct row_span before;
};

/*
 * Calls visit() for each gap between the spans, in the order of their addresses, in executable sections; in
 * executable segments if the file has no section headers. Gaps that would exceed `budget` bytes altogether
 * are left out, and the padding between functions of Go. Sorts the spans; visit() may add some. 0,
 * -ENOMEM, or what visit() returned < 0.
 */
int code_gaps_visit(struct row_spans *spans, const struct elf_image *img, uint64_t budget,
		    int (*visit)(struct row_spans *spans, const struct elf_image *img,
				 const struct code_gap *gap, void *data),
		    void *data);

/* The same for all code, covered or not, one section or segment at a time. */
int code_ranges_visit(struct row_spans *spans, const struct elf_image *img, uint64_t budget,
		      int (*visit)(struct row_spans *spans, const struct elf_image *img,
				   const struct code_gap *gap, void *data),
		      void *data);

#endif
