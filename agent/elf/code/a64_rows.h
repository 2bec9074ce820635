// SPDX-License-Identifier: Apache-2.0
/*
 * Derives rows for A64 functions without call-frame information from their instructions. Rank 1, private to
 * elf/.
 */
#ifndef PROFLET_ELF_A64_ROWS_H
#define PROFLET_ELF_A64_ROWS_H

#include "agent/elf/cfi/row_spans.h"
#include "agent/elf/code/piece.h"

/*
 * Adds the spans of one piece. Code that is not understood gets rows that say so (NO_RULE_REFUSED), padding
 * gets none. 0, -ENOMEM.
 */
int a64_read_piece(struct row_spans *spans, const struct code_piece *piece);

#endif
