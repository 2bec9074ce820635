// SPDX-License-Identifier: Apache-2.0
/* The FDEs of an undamaged .eh_frame, and whether a damaged one has spoilt more than its own function. */
#ifndef PROFLET_MUTATIONS_FDES_H
#define PROFLET_MUTATIONS_FDES_H

#include "agent/elf/cfi/rows.h"
#include "tests/oracle/mutations/target.h"

struct fde_place {
	uint64_t at, len;    /* of the entry in the file, its length field included */
	uint64_t start, end; /* addresses of its function */
};

struct fde_places {
	struct fde_place *v; /* owned; by start, none overlapping */
	size_t n;
};

/* Fills `ret`; empty when the section is missing or its FDEs overlap. 0 or -ENOMEM. */
int fde_places_read(struct fde_places *ret, const struct target *t, uint16_t machine);
/* The first address outside of FDE `i`'s function (n: nobody's) at which the tables differ; false: none. */
bool fde_places_differ(const struct fde_places *f, size_t i, const struct elf_rows *a,
		       const struct elf_rows *b, uint64_t *ret_va);

#endif
