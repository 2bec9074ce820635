// SPDX-License-Identifier: Apache-2.0
/*
 * Encodes unwind tables in the form that the BPF program reads (struct unwind_table, bpf/abi.h). The rows
 * of one file are cut into blocks. A block covers one text range, has a dictionary of at most
 * TABLE_RULES_MAX rules and fits into a segment; a file with more rules, rows or text has several. Pure:
 * rows in, bytes out.
 */
#ifndef PROFLET_UNWIND_BLOCK_H
#define PROFLET_UNWIND_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/abi.h"

struct elf_rows;

struct unwind_block {
	uint64_t va, end; /* text range [va, end), ELF virtual addresses */
	uint8_t *bytes;	  /* struct unwind_table and what follows; offsets count from the block's start */
	uint32_t len;	  /* bytes */
};

struct unwind_blocks {
	struct unwind_block *blocks; /* ascending, not overlapping */
	size_t n;
	size_t bytes; /* of all of them */
};

/*
 * `machine` is the ELF machine that register numbers belong to. Rules that the BPF program cannot apply
 * become UNWIND_CFA_UNSUPPORTED. 0 or -ENOMEM; ret is filled on success only.
 */
int unwind_blocks_encode(struct unwind_blocks *ret, const struct elf_rows *rows, uint16_t machine);
void unwind_blocks_fini(struct unwind_blocks *b);
/*
 * Whether a block, not placed yet, has the form that unwind_blocks_encode gives it, so that the BPF program
 * stays inside of it. Its rules may be wrong. For bytes from elsewhere; linear in their number.
 */
bool unwind_block_valid(const struct unwind_block *b);
/*
 * Makes the offsets of a block count from the start of the segment, where the block was copied to
 * `offset`, and writes its generation.
 */
void unwind_block_place(uint8_t *bytes, uint32_t offset, uint32_t generation);
/* How many blocks the rows take, and their bytes, all-in. 0 or -ENOMEM. */
int unwind_blocks_size(const struct elf_rows *rows, uint16_t machine, size_t *ret_bytes, size_t *ret_blocks);

#endif
