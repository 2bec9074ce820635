// SPDX-License-Identifier: Apache-2.0
/*
 * Adds the rows of outermost frames that no call-frame information marks: code that was not called, so that
 * no return address lies above its frame. A stack is complete only if its last frame has such a row. Rank 1,
 * private to elf/.
 */
#ifndef PROFLET_ELF_ROOTS_H
#define PROFLET_ELF_ROOTS_H

#include "agent/elf/cfi/row_spans.h"
#include "agent/elf/code/gaps.h"

/*
 * Adds spans for the program's entry point and for the first code of greenlets, also where an FDE says
 * something else (row_spans.overridden), and, on x86-64, for the first code of threads made by clone(2), of
 * coroutines made by makecontext(3), and of fibers in the manner of Boost.Context. To be called when all FDEs
 * have been read. 0, -ENOMEM, -EFBIG.
 */
int roots_read(struct row_spans *spans, struct elf_image *img, struct code_gaps *gaps);

#endif
