// SPDX-License-Identifier: Apache-2.0
/*
 * Reads the binary search table of .eh_frame_hdr (Linux Standard Base 5, section 10.6.2), which lists the
 * start of each function and the address of its FDE. It serves to check .eh_frame: it shows where entries
 * begin after a damaged length, and which range an FDE may describe. Neither table is trusted more than the
 * other: where they disagree, the one that fits the neighbouring entries wins. Rank 1, private to elf/.
 */
#ifndef PROFLET_ELF_EHINDEX_H
#define PROFLET_ELF_EHINDEX_H

#include "agent/elf/file/elf_image.h"

/* Zeroed: there is no table. */
struct eh_index {
	const uint8_t *table; /* pairs of 32-bit start and FDE address, relative to `base`; inside `bytes` */
	uint8_t *bytes;	      /* owned */
	uint64_t *known;      /* owned; bit n is set when an FDE begins at offset 4 * n of the section */
	size_t n, n_words;
	uint64_t base, section; /* addresses of .eh_frame_hdr and of .eh_frame */
	size_t last;		/* the entry found last: FDEs are mostly in the order of the table */
	unsigned searches;	/* linear searches that may still be made */
};

#define EH_INDEX_NONE SIZE_MAX

/* Reads the table of `eh_frame`. 0, also when there is no usable one; -ENOMEM. */
int eh_index_read(struct eh_index *ret, struct elf_image *img, const struct elf_data *eh_frame);
void eh_index_fini(struct eh_index *ix);
/* The first offset >= `offset` at which an FDE begins according to the table, or UINT64_MAX. */
uint64_t eh_index_next(const struct eh_index *ix, uint64_t offset);
/* The entry of the function that starts at `start`, or EH_INDEX_NONE. */
size_t eh_index_find(struct eh_index *ix, uint64_t start);
/*
 * The entry of the FDE at `offset`, or EH_INDEX_NONE. Searches linearly, and gives up after a few searches.
 */
size_t eh_index_of(struct eh_index *ix, uint64_t offset);
/* Fields of entry `i` < n. */
uint64_t eh_index_start(const struct eh_index *ix, size_t i);
uint64_t eh_index_offset(const struct eh_index *ix, size_t i);

#endif
