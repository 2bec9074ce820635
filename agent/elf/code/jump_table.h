// SPDX-License-Identifier: Apache-2.0
/*
 * Reads the tables by which compiled code jumps to the cases of a switch. Rank 1, private to elf/.
 */
#ifndef PROFLET_ELF_JUMP_TABLE_H
#define PROFLET_ELF_JUMP_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/elf/code/x86.h"

struct elf_image;

#define JUMP_TABLE_MAX 1024u /* entries that are read */
#define JUMP_TABLE_INSNS 16u /* instructions before the jump in which its table is looked for */

/*
 * Instructions one behind the other, with their addresses; the last is the jump. `reg` of a conditional jump
 * is its condition, the low four bits of its opcode; X86_NO_REG: it has none.
 */
struct jump_context {
	struct x86_insn insns[JUMP_TABLE_INSNS];
	uint64_t va[JUMP_TABLE_INSNS];
	unsigned n;
	uint64_t loaded
		[X86_REGS]; /* the address that the function has loaded last into each register; 0: none */
};

/*
 * Stores the targets of the jump that lie in [low, high), in the order of the table, up to the first that
 * does not, or up to the number with which the index is compared. *ret_bounded: that number is known; else
 * the last targets may be those of another table. Returns their number; 0: no table was found.
 */
uint32_t jump_table_read(const struct elf_image *img, const struct jump_context *c, uint64_t low,
			 uint64_t high, uint64_t ret[JUMP_TABLE_MAX], bool *ret_bounded);

#endif
