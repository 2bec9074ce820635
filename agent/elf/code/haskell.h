// SPDX-License-Identifier: Apache-2.0
/*
 * Adds rows for code that GHC compiled from Haskell, x86-64. Such code is entered and left by jumps: rbp is
 * the pointer of the Haskell stack, which lies in the heap, and rsp stays where StgRun, the function of the
 * runtime system that C code calls, has put it. So the C caller of all Haskell code is found by the rule of
 * StgRun, wherever in its program the code is. Rank 1, private to elf/.
 */
#ifndef PROFLET_ELF_HASKELL_H
#define PROFLET_ELF_HASKELL_H

#include "agent/elf/cfi/row_spans.h"
#include "agent/elf/code/gaps.h"

struct elf_image;

/*
 * Adds spans of ELF_CODE for Haskell code that no span covers. If StgRun is in another file, they say that
 * there is no rule. GHC's own call-frame information (-g) describes the Haskell stack, whose outermost frames
 * have none: where StgRun is in the file, it is replaced (row_spans.overridden). To be called when all FDEs
 * have been read, before asmrows_read. 0, -ENOMEM.
 */
int haskell_read(struct row_spans *spans, const struct elf_image *img, struct code_gaps *gaps);
/* The same for a piece of code that no span covers. 0, -ENOMEM. */
int haskell_read_piece(struct row_spans *spans, uint64_t va, const uint8_t *code, uint32_t n);

#endif
