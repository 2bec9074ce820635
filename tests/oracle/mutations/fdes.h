// SPDX-License-Identifier: Apache-2.0
/*
 * The FDEs of an undamaged .eh_frame, and a check that a damaged one changes rows of its own function only.
 */
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

/* Fills `ret`, which stays empty when the section is missing or its FDEs overlap. 0 or -ENOMEM. */
int fde_places_read(struct fde_places *ret, const struct target *t, uint16_t machine);
/*
 * Finds the first address outside of the function of FDE `i` (n: of all functions) at which the tables
 * differ. False: there is none.
 */
bool fde_places_differ(const struct fde_places *f, size_t i, const struct elf_rows *a,
		       const struct elf_rows *b, uint64_t *ret_va);

#endif
