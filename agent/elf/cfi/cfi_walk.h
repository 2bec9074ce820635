// SPDX-License-Identifier: Apache-2.0
/*
 * Walks the entries of a section from length to length, and with the search table of .eh_frame_hdr also past
 * entries whose length is damaged: such an entry is lost, and the walk goes on at the next FDE that section
 * and table agree about. Rank 1, private to elf/.
 */
#ifndef PROFLET_ELF_CFI_WALK_H
#define PROFLET_ELF_CFI_WALK_H

#include "agent/elf/cfi/fdes.h"

/* The next entry at or behind *offset, which moves behind it. False at the end. What is lost is reported to
 * `f`. */
bool entries_next(struct fdes *f, const struct cfi_section *s, uint64_t *offset, struct cfi_entry *ret);
/* Compares an FDE with the table: NULL when it may stand, its range cut where the next function begins; else
 * what is wrong. */
const char *entries_check_range(const struct cfi_section *s, const struct cfi_entry *entry,
				struct cfi_fde *fde);

#endif
