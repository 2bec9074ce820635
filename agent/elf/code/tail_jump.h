// SPDX-License-Identifier: Apache-2.0
/*
 * Jumps through a register: to a case of a switch, to what an interpreter runs next, or to another function,
 * which returns to this one's caller. The instructions before may tell. Rank 1, private to elf/.
 */
#ifndef PROFLET_ELF_TAIL_JUMP_H
#define PROFLET_ELF_TAIL_JUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TAIL_JUMP_INSNS 8 /* before the jump, that are looked at */

/*
 * Whether the instruction at `off`, of n bytes of code, seems to be a jump to another function, with no frame
 * left: a guess, for code in which nothing else says what the frame is. Before it are those at the offsets
 * `before`, the nearest one first.
 */
bool tail_jump_seems(const uint8_t *code, uint32_t n, uint32_t off, const uint32_t *before, size_t n_before);

#endif
