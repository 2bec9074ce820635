// SPDX-License-Identifier: Apache-2.0
/* Rows for A64 code of which only the bytes are known. Rank 1, private to elf/. */
#ifndef PROFLET_ELF_A64_MEMORY_H
#define PROFLET_ELF_A64_MEMORY_H

#include "agent/elf/code/memory_code.h"

/* memory_rows_make for that machine, on any. 0; -EFBIG; -ENOMEM. */
int a64_memory_rows(struct memory_rows *ret, const struct memory_code *code);

#endif
