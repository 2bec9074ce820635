// SPDX-License-Identifier: Apache-2.0
/* The rows of a Go function table. Rank 1, private to elf/. */
#ifndef PROFLET_ELF_GOROWS_H
#define PROFLET_ELF_GOROWS_H

#include "agent/elf/cfi/row_spans.h"

/*
 * Adds the functions of the image's table, if it has one, as spans of ELF_GOPCLNTAB; a function that cannot
 * be read is skipped. 0, -ENOMEM, -EFBIG, -errno of a read.
 */
int gorows_read(struct row_spans *spans, const struct elf_image *img);

#endif
