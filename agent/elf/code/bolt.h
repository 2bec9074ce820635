// SPDX-License-Identifier: Apache-2.0
/* Corrects rows of files that BOLT has rewritten. Rank 1, private to elf/. */
#ifndef PROFLET_ELF_BOLT_H
#define PROFLET_ELF_BOLT_H

#include "agent/elf/cfi/row_spans.h"

struct elf_image;

/*
 * Replaces rows that contradict the code, in files with the note that BOLT adds, x86-64 only, and records
 * their addresses (row_spans.overridden). To be called when all FDEs have been read. 0, -ENOMEM, -EFBIG.
 */
int bolt_repair(struct row_spans *spans, const struct elf_image *img);

#endif
