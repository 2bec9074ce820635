// SPDX-License-Identifier: Apache-2.0
/*
 * Derives rows for functions without call-frame information from their instructions. Rank 1, private to elf/.
 */
#ifndef PROFLET_ELF_ASMROWS_H
#define PROFLET_ELF_ASMROWS_H

#include "agent/elf/cfi/row_spans.h"
#include "agent/elf/code/gaps.h"
#include "agent/elf/code/piece.h"

#define ASM_PIECE_BYTES (4u << 20) /* bytes of code that are analysed together */

/*
 * Adds spans of ELF_CODE for code in executable sections that no span covers yet. To be called
 * after all other sources were read. `gaps`: may be known already. 0, -ENOMEM.
 */
int asmrows_read(struct row_spans *spans, const struct elf_image *img, struct code_gaps *gaps);

/* For tests: analyses the code as if nothing described it. 0, -ENOMEM. */
int asmrows_observe(const struct elf_image *img, const struct code_observer *observer);

/* Adds the spans of one piece. 0, -ENOMEM. */
int asmrows_read_piece(struct row_spans *spans, const struct code_piece *piece);

#endif
