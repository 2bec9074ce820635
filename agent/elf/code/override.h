// SPDX-License-Identifier: Apache-2.0
/*
 * Rows for code whose FDE lies. Rank 1, private to elf/.
 *
 * An entry knows a function by its code, not by the file's build id: a distribution gives a new build id with
 * every update, and the same function is in static programs, too, while the right rows follow from the code
 * alone. Entries are made by tests/oracle/find_lies, which tests/oracle/README.md describes.
 */
#ifndef PROFLET_ELF_OVERRIDE_H
#define PROFLET_ELF_OVERRIDE_H

#include "agent/elf/cfi/row_spans.h"

struct elf_image;
struct frame_query;

struct override_row {
	uint32_t off; /* bytes from the FDE's start, increasing; the rule holds up to the next */
	const struct elf_rule *rule; /* NULL: what the FDE says is right from here on */
};

struct override {
	const char *name;   /* of the function, for people */
	uint32_t fde_bytes; /* length of the FDE's range */
	uint32_t from, to;  /* the code that is compared: offsets in that range */
	uint64_t code;	    /* override_code of it */
	/* up to the first of them, the FDE is right; the last has no rule, and may stand at the range's end
	 */
	const struct override_row *rows;
	size_t n_rows;
};

#define OVERRIDE_CODE_MAX 1024 /* bytes of code that an entry may compare */

/* Sorted by fde_bytes. */
extern const struct override override_list[];
extern const size_t override_list_n;

/* FNV-1a, 64 bits, of the code; where a call goes differs from build to build: for the four bytes behind each
 * e8 (call) and each ff 15 (call through the GOT) zeros are taken. */
uint64_t override_code(const uint8_t *code, size_t len);
/*
 * Replaces the rows of FDEs whose code is on the list, and begins the root of an _start at its endbr64;
 * remembers where (fdes.overridden). To be called when
 * all FDEs have been read. x86-64 only. 0, -ENOMEM, -EFBIG.
 */
int override_apply(struct row_spans *spans, const struct elf_image *img, const struct override *list,
		   size_t n);

/* Puts the entry's rows over those of the span, whatever its code is. */
int override_rows(struct row_spans *spans, struct row_span *span, const struct override *o);
/* The same for one complete rule: what the entry says of CFA, frame pointer and return address; what other
 * registers were is not known there. */
void override_complete(const struct elf_image *img, struct frame_query *q, const struct override *list,
		       size_t n);

#endif
