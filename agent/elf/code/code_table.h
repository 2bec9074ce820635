// SPDX-License-Identifier: Apache-2.0
/* Functions that are called by the number of an operation, through a table. Private to elf/. */
#ifndef PROFLET_ELF_CODE_TABLE_H
#define PROFLET_ELF_CODE_TABLE_H

#include <stdint.h>

struct elf_image;

/*
 * Whether the function, [start, end), calls through a table of 256 words that each are an address of code:
 * `call *(table, number, 8)`. 1, 0; -ENOMEM. Functions of more than 4 KiB are not looked at.
 */
int code_calls_table(const struct elf_image *img, uint64_t start, uint64_t end);

#endif
