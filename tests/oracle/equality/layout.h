// SPDX-License-Identifier: Apache-2.0
/* Lays readelf's FDEs over each other, by what agent/elf/cfi/rows.h promises. */
#ifndef PROFLET_EQUALITY_LAYOUT_H
#define PROFLET_EQUALITY_LAYOUT_H

#include "tests/oracle/equality/expected.h"

/* FDEs that are left out: sorted by section kind and offset. */
struct layout_skip {
	enum section_kind kind;
	uint64_t offset;
};

struct layout_part {
	uint64_t start, end;
	int64_t rule; /* index into expected.rules */
	enum section_kind kind;
};

/* Called for each part of a row, in order of addresses. Negative ends the walk. */
typedef int (*layout_fn)(const struct layout_part *part, void *data);

/*
 * Of FDEs that cover an address the one in .eh_frame holds, then the one that starts last, then the first in
 * the section. FDEs of no length and (in .debug_frame) at address 0 are left out, and those in `skips`,
 * counted in *ret_skipped. 0; -ENOMEM; what fn returned.
 */
int layout_walk(struct expected *e, const struct layout_skip *skips, size_t n_skips, size_t *ret_skipped,
		layout_fn fn, void *data);

#endif
