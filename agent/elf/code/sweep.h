// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the functions in a piece of code, and follows them: which instructions there are, and the state
 * before each. Rank 1, private to elf/.
 */
#ifndef PROFLET_ELF_SWEEP_H
#define PROFLET_ELF_SWEEP_H

#include "agent/elf/cfi/row_spans.h"
#include "agent/elf/code/flow.h"
#include "agent/elf/code/piece.h"

struct code_sweep;

/*
 * Analyses the piece, and borrows its code. What the spans cover is left out, unless nothing is known of
 * functions (piece->starts), as in a gap between spans. 0, -ENOMEM.
 */
int code_sweep_new(struct code_sweep **ret, const struct code_piece *piece, const struct row_spans *spans);
void code_sweep_free(struct code_sweep *s); /* NULL is fine */
/*
 * The length of the instruction at this offset; 0: none is known to begin there. *ret_state is the state
 * before it, which is the same object where it is the same state; borrowed; NULL: the frame is lost there.
 * `ret_state` NULL: not wanted.
 */
unsigned code_sweep_insn(const struct code_sweep *s, uint32_t off, const struct flow_state **ret_state);
/* Whether a span covers the byte. */
bool code_sweep_is_covered(const struct code_sweep *s, uint32_t off);

#endif
