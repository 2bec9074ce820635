// SPDX-License-Identifier: Apache-2.0
/*
 * Replaces rows of functions whose FDE contradicts their code. Rank 1, private to elf/.
 *
 * An entry identifies a function by its code, not by the build id of its file: each update of a distribution
 * has a new build id, and the same function occurs in static programs, too, while the right rows follow from
 * the code alone. tests/oracle/find_lies makes entries; tests/oracle/README.md describes it.
 */
#ifndef PROFLET_ELF_OVERRIDE_H
#define PROFLET_ELF_OVERRIDE_H

#include "agent/elf/cfi/row_spans.h"

struct elf_image;
struct frame_query;

struct override_row {
	uint32_t off; /* bytes from the start of the FDE, increasing; the rule applies up to the next row */
	const struct elf_rule *rule; /* NULL: from here on the FDE is right */
};

struct override {
	const char *name;   /* name of the function, for display */
	uint32_t fde_bytes; /* length of the FDE's range */
	uint32_t from, to;  /* the code that is compared: offsets in this range */
	uint64_t code;	    /* override_code of this code */
	/*
	 * before the first of them, the FDE is right; the last has no rule, and may be at the end of the
	 * range
	 */
	const struct override_row *rows;
	size_t n_rows;
};

#define OVERRIDE_CODE_MAX 1024 /* bytes of code that an entry may compare */

/* Sorted by fde_bytes. */
extern const struct override override_list[];
extern const size_t override_list_n;

/*
 * FNV-1a hash (64 bits) of the code. Since the targets of calls differ from build to build, the four bytes
 * behind each e8 (call) and each ff 15 (call through the GOT) count as zeros.
 */
uint64_t override_code(const uint8_t *code, size_t len);
/*
 * Replaces the rows of FDEs whose code is on the list, lets the outermost row of _start begin at its endbr64,
 * and records the addresses (row_spans.overridden). To be called when all FDEs have been read. x86-64 only.
 * 0, -ENOMEM, -EFBIG.
 */
int override_apply(struct row_spans *spans, const struct elf_image *img, const struct override *list,
		   size_t n);

/* Replaces rows of the span by those of the entry, without comparing the code. */
int override_rows(struct row_spans *spans, struct row_span *span, const struct override *o);
/*
 * Corrects one complete rule: CFA, frame pointer and return address as in the entry; all other registers
 * become unknown.
 */
void override_complete(const struct elf_image *img, struct frame_query *q, const struct override *list,
		       size_t n);

#endif
