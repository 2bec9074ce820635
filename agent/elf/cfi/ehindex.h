// SPDX-License-Identifier: Apache-2.0
/*
 * The binary search table of .eh_frame_hdr (Linux Standard Base 5, section 10.6.2) as a second opinion on
 * .eh_frame: the start of each function and the address of its FDE. It tells where entries begin when a
 * length is damaged, and whose range an FDE may speak for. Neither is trusted over the other: where they
 * disagree, the one that agrees with its surroundings wins. Rank 1, private to elf/.
 */
#ifndef PROFLET_ELF_EHINDEX_H
#define PROFLET_ELF_EHINDEX_H

#include "agent/elf/file/elf_image.h"

/* Zeroed: no table, nothing is known. */
struct eh_index {
	const uint8_t *table; /* pairs of 32-bit start and FDE address, relative to `base`; inside `bytes` */
	uint8_t *bytes;	      /* owned */
	uint64_t *known;      /* owned: bit n set when an FDE begins at 4 * n of the section */
	size_t n, n_words;
	uint64_t base, section; /* addresses of .eh_frame_hdr and of .eh_frame */
	size_t last;		/* what eh_index_find found last: FDEs mostly come in the table's order */
	unsigned searches;	/* linear ones that may still be made */
};

#define EH_INDEX_NONE SIZE_MAX

/* Reads the table that belongs to `eh_frame`. 0, also when there is none that can be used; -ENOMEM. */
int eh_index_read(struct eh_index *ret, struct elf_image *img, const struct elf_data *eh_frame);
void eh_index_fini(struct eh_index *ix);
/* The first offset >= `offset` at which an FDE begins by the table; UINT64_MAX when there is none. */
uint64_t eh_index_next(const struct eh_index *ix, uint64_t offset);
/* The entry of the function that starts there, or EH_INDEX_NONE. */
size_t eh_index_find(struct eh_index *ix, uint64_t start);
/* The entry of the FDE at that offset, or EH_INDEX_NONE; searches from the front, and only a few times. */
size_t eh_index_of(struct eh_index *ix, uint64_t offset);
/* Fields of entry `i` < n. */
uint64_t eh_index_start(const struct eh_index *ix, size_t i);
uint64_t eh_index_offset(const struct eh_index *ix, size_t i);

#endif
