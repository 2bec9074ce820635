// SPDX-License-Identifier: Apache-2.0
/*
 * Reads the tables by which compiled code jumps to the cases of a switch. Rank 1, private to elf/.
 */
#ifndef PROFLET_ELF_JUMP_TABLE_H
#define PROFLET_ELF_JUMP_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/elf/code/x86.h"

struct code_piece;

#define JUMP_TABLE_MAX 1024u /* entries that are read */
#define JUMP_TABLE_INSNS 16u /* instructions before the jump in which its table is looked for */

/* Instructions one behind the other. */
struct jump_context {
	uint32_t off[JUMP_TABLE_INSNS]; /* in the piece; of the instruction i at [i % JUMP_TABLE_INSNS] */
	uint32_t n;			/* instructions up to here, of which off[] has the last */
	uint32_t end;			/* offset behind the last one */
	/* the address that the function has loaded last into each register; 0: none */
	uint64_t loaded[X86_REGS];
};

/* Adds the instruction at this offset. If it does not follow the last one, those before are forgotten. */
static inline void jump_context_add(struct jump_context *c, uint32_t off, uint32_t len)
{
	if (off != c->end)
		c->n = 0;
	c->off[c->n++ % JUMP_TABLE_INSNS] = off;
	c->end = off + len;
}

/* The length of the instruction before the last one; 0: there is none. */
static inline uint32_t jump_context_before(const struct jump_context *c)
{
	return c->n < 2 ? 0 : c->off[(c->n - 1) % JUMP_TABLE_INSNS] - c->off[(c->n - 2) % JUMP_TABLE_INSNS];
}

/*
 * Stores the targets of the jump, the last instruction of the context, that lie in the piece, in the order of
 * the table, up to the first that does not, or up to the number with which the index is compared.
 * *ret_bounded: that number is known; else the last targets may be those of another table. Returns their
 * number; 0: no table was found. The piece is one of a file.
 */
uint32_t jump_table_read(const struct code_piece *piece, const struct jump_context *c,
			 uint64_t ret[JUMP_TABLE_MAX], bool *ret_bounded);

#endif
