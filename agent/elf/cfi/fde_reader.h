// SPDX-License-Identifier: Apache-2.0
/* Reads all FDEs of one call-frame section. */
#ifndef PROFLET_ELF_FDE_READER_H
#define PROFLET_ELF_FDE_READER_H

#include "agent/elf/cfi/cfi_entry.h"
#include "agent/elf/cfi/row_spans.h"

/*
 * Interprets the FDEs of the section and adds a span for each. An FDE that cannot be read loses its own range
 * only, and is reported (row_spans_skip). 0, -ENOMEM, -EFBIG (CFI_ROWS_MAX, RULES_MAX).
 */
int fdes_read(struct row_spans *spans, const struct cfi_section *s);

#endif
