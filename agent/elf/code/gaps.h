// SPDX-License-Identifier: Apache-2.0
/* Finds the executable code of a file, and the part that no span of rows covers. Rank 1, private to elf/. */
#ifndef PROFLET_ELF_GAPS_H
#define PROFLET_ELF_GAPS_H

#include "agent/elf/cfi/row_spans.h"

/* Bytes of the executable sections, or of the executable segments if the file has no section headers. */
uint64_t code_bytes(const struct elf_image *img);

struct code_gap {
	uint64_t start, end; /* at least ELF_GAP_MIN bytes */
	uint64_t offset;     /* of `start` in the file */
	/* the span that ends at `start`; n is 0: there is none */
	struct row_span before;
};

#define GAPS_BYTES_MAX (64u << 20) /* bytes of code without call-frame information, of one file */

/*
 * The gaps between the spans in executable sections; in executable segments if there are no section headers.
 * Those that would exceed GAPS_BYTES_MAX altogether are left out.
 */
struct code_gaps {
	struct code_gap *v; /* owned; in the order of their addresses */
	size_t n, cap;
	size_t n_spans; /* that there were when they were found */
	bool found;
};

typedef int code_gap_visitor(struct row_spans *spans, const struct elf_image *img, const struct code_gap *gap,
			     void *data);

/*
 * Finds the gaps, unless they are known and no span was added since. The padding between functions of Go is
 * none. Sorts the spans. 0, -ENOMEM.
 */
int code_gaps_find(struct code_gaps *gaps, struct row_spans *spans, const struct elf_image *img);
void code_gaps_fini(struct code_gaps *gaps);
/* Finds the gaps and calls visit() for each; it may add spans. 0, -ENOMEM, or what visit() returned < 0. */
int code_gaps_visit(struct code_gaps *gaps, struct row_spans *spans, const struct elf_image *img,
		    code_gap_visitor *visit, void *data);

/* Calls visit() for all code, covered or not, one section or segment at a time, up to as many bytes. */
int code_ranges_visit(struct row_spans *spans, const struct elf_image *img, code_gap_visitor *visit,
		      void *data);

#endif
