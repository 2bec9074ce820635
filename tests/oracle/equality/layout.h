// SPDX-License-Identifier: Apache-2.0
/* Combines overlapping FDEs of readelf in the way that agent/elf/cfi/rows.h defines. */
#ifndef PROFLET_EQUALITY_LAYOUT_H
#define PROFLET_EQUALITY_LAYOUT_H

#include "tests/oracle/equality/expected.h"

/* FDEs to skip, sorted by section kind and offset. */
struct layout_skip {
	enum section_kind kind;
	uint64_t offset;
	bool in_part; /* rows that proflet has for it are compared */
};

struct layout_part {
	uint64_t start, end;
	int64_t rule; /* index into expected.rules */
	enum section_kind kind;
	bool in_part; /* of an FDE that was skipped in part */
};

/* Called for each part of a row, in the order of addresses. A negative result ends the walk. */
typedef int (*layout_fn)(const struct layout_part *part, void *data);

/*
 * Of FDEs that cover an address the one in .eh_frame holds, then the one that starts last, then the first in
 * the section. FDEs of no length and (in .debug_frame) at address 0 are left out, and those in `skips`
 * that were not skipped in part, all counted in *ret_skipped. 0; -ENOMEM; what fn returned.
 */
int layout_walk(struct expected *e, const struct layout_skip *skips, size_t n_skips, size_t *ret_skipped,
		layout_fn fn, void *data);

#endif
