// SPDX-License-Identifier: Apache-2.0
/* Rows of files that BOLT has written anew. Rank 1, private to elf/. */
#ifndef PROFLET_ELF_BOLT_H
#define PROFLET_ELF_BOLT_H

#include "agent/elf/cfi/row_spans.h"

struct elf_image;

/*
 * Replaces rows that the code contradicts, in files with BOLT's note, x86-64 only; remembers where
 * (fdes.overridden). To be called when all FDEs have been read. 0, -ENOMEM, -EFBIG.
 */
int bolt_repair(struct row_spans *spans, const struct elf_image *img);

#endif
