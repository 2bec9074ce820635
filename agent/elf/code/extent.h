// SPDX-License-Identifier: Apache-2.0
/* How far the instructions of a function that is not followed seem to go. Rank 1, private to elf/. */
#ifndef PROFLET_ELF_EXTENT_H
#define PROFLET_ELF_EXTENT_H

#include <stdint.h>

/*
 * Behind a jump through a register, there may be the addresses that it chooses from: of this code, aligned.
 * Returns the offset behind them, or `at`; moves *reached to the farthest of them. `va`: of the first byte.
 */
uint32_t code_behind_table(uint64_t va, const uint8_t *code, uint32_t n, uint32_t at, uint32_t *reached);
/*
 * Passes the instructions from the offset `from` of the `n` bytes of code on, one after the other. Returns
 * the offset at which they end: the next bytes are no instruction, or they are padding behind one that
 * does not continue, where nothing jumps over it. Stops at `limit` (at most n) or behind it, because that
 * may be in the middle of an instruction.
 */
uint32_t code_extent(uint64_t va, const uint8_t *code, uint32_t n, uint32_t from, uint32_t limit);

#endif
