// SPDX-License-Identifier: Apache-2.0
/* Makes rows from the function table of a Go binary. Rank 1, private to elf/. */
#ifndef PROFLET_ELF_GOROWS_H
#define PROFLET_ELF_GOROWS_H

#include "agent/elf/cfi/row_spans.h"

/*
 * Adds the functions of the image's table, if it has one, as spans of ELF_GOPCLNTAB. Functions that cannot be
 * read are skipped. 0, -ENOMEM, -EFBIG, -errno of a read.
 */
int gorows_read(struct row_spans *spans, const struct elf_image *img);

#endif
