// SPDX-License-Identifier: Apache-2.0
/*
 * Unwind tables in the form the kernel reads (bpf/abi.h, struct unwind_table): the rows of one file, cut into
 * blocks. A block covers one text range, has a dictionary of at most TABLE_RULES_MAX rules and fits a
 * segment; a file with more rules, rows or text than that has several. Pure: rows in, bytes out. Rank 2.
 */
#ifndef PROFLET_UNWIND_BLOCK_H
#define PROFLET_UNWIND_BLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "bpf/abi.h"

struct elf_rows;

struct unwind_block {
	uint64_t va, end; /* text range [va, end), ELF virtual addresses */
	uint8_t *bytes;	  /* a struct unwind_table and what follows; offsets relative to the block until it is
			     placed */
	uint32_t len;	  /* bytes */
};

struct unwind_blocks {
	struct unwind_block *blocks; /* ascending, not overlapping */
	size_t n;
	size_t bytes; /* of all of them */
};

/*
 * `machine` is the ELF machine that register numbers belong to. Rules that the kernel cannot do become
 * UNWIND_CFA_UNSUPPORTED. 0 or -ENOMEM; ret is filled on success only.
 */
int unwind_blocks_encode(struct unwind_blocks *ret, const struct elf_rows *rows, uint16_t machine);
void unwind_blocks_fini(struct unwind_blocks *b);
/* Turns the block's offsets into those of the segment it is copied to, `offset` bytes from the segment's
 * start, and writes its generation. */
void unwind_block_place(uint8_t *bytes, uint32_t offset, uint32_t generation);
/* How many blocks the rows take, and their bytes, all-in. 0 or -ENOMEM. */
int unwind_blocks_size(const struct elf_rows *rows, uint16_t machine, size_t *ret_bytes, size_t *ret_blocks);

#endif
