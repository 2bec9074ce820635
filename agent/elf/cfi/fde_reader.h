// SPDX-License-Identifier: Apache-2.0
/* Reads all FDEs of one call-frame section. Rank 1, private to elf/. */
#ifndef PROFLET_ELF_FDE_READER_H
#define PROFLET_ELF_FDE_READER_H

#include "agent/elf/cfi/cfi_entry.h"
#include "agent/elf/cfi/row_spans.h"

/*
 * Interprets the FDEs of the section and adds a span for each. An FDE that cannot be read is skipped and
 * reported (row_spans_skip); only its own range has no rows. Of one with instructions that no row can
 * express, the good rows are kept (row_spans_skip_part). 0, -ENOMEM, -EFBIG (CFI_ROWS_MAX, RULES_MAX).
 */
int fdes_read(struct row_spans *spans, const struct cfi_section *s);

#endif
