// SPDX-License-Identifier: Apache-2.0
/*
 * Adds rows for code that is recognised by its bytes and has no call-frame information. Rank 1, private to
 * elf/.
 */
#ifndef PROFLET_ELF_KNOWN_CODE_H
#define PROFLET_ELF_KNOWN_CODE_H

#include "agent/elf/cfi/row_spans.h"

/*
 * Adds spans of ELF_CODE, x86-64 only, for .plt, .plt.sec, .plt.got, .init and .fini. To be called when the
 * FDEs have been read. 0, -ENOMEM.
 */
int known_code_read(struct row_spans *spans, const struct elf_image *img);

#endif
