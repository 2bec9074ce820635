// SPDX-License-Identifier: Apache-2.0
/*
 * Finds out which functions return: behind a call of one that does not, something else begins. Rank 1,
 * private to elf/.
 */
#ifndef PROFLET_ELF_RETURNS_H
#define PROFLET_ELF_RETURNS_H

#include <stddef.h>

#include "agent/elf/code/piece.h"
#include "agent/elf/code/x86.h"

#define RETURNS_SLOTS 256u

/* Zero it, then call code_returns_init. */
struct code_returns {
	struct code_piece piece;
	uint8_t *answers;    /* owned; of functions in the piece, by offset: enum returns + 1, 0 unknown */
	uint32_t *marks;     /* owned; instructions that a search has visited */
	uint32_t generation; /* of the search */
	uint32_t *work;	     /* owned; offsets from which the searches go on */
	size_t n_work, cap_work;
	unsigned depth;
	uint64_t budget; /* instructions that may still be decoded */
	struct {
		uint64_t va;
		uint8_t answer;
	} slots[RETURNS_SLOTS]; /* functions outside of the piece */
};

enum returns { RETURNS_NEVER, RETURNS_PERHAPS, RETURNS_SURELY };

/* Borrows what the piece refers to. 0, -ENOMEM. */
int code_returns_init(struct code_returns *r, const struct code_piece *piece);
void code_returns_fini(struct code_returns *r);
/* Whether the function at this offset of the piece (or outside of it) returns. */
enum returns code_returns(struct code_returns *r, int64_t off);
/* The same for the call or jump through a GOT entry at `off`; RETURNS_PERHAPS for all others. */
enum returns code_returns_slot(const struct code_returns *r, uint32_t off, const struct x86_insn *insn);

#endif
