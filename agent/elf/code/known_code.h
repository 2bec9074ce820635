// SPDX-License-Identifier: Apache-2.0
/* Rows of code that is known by its bytes, where call-frame information is silent. Rank 1, private to elf/.
 */
#ifndef PROFLET_ELF_KNOWN_CODE_H
#define PROFLET_ELF_KNOWN_CODE_H

#include "agent/elf/cfi/row_spans.h"

/*
 * Adds as spans of ELF_CODE, x86-64 only: the image's .plt, .plt.sec, .plt.got, .init and .fini; the root of
 * coroutines that makecontext(3) made. To be called when the FDEs have been read. 0, -ENOMEM.
 */
int known_code_read(struct row_spans *spans, const struct elf_image *img);

#endif
