// SPDX-License-Identifier: Apache-2.0
/* Relocations of position independent files: words that are an address in the file. Private to elf/. */
#ifndef PROFLET_ELF_RELOCATIONS_H
#define PROFLET_ELF_RELOCATIONS_H

#include <elf.h>
#include <stdbool.h>

struct elf_image;

/*
 * Calls `fn` for each relative relocation until it returns false: the word at r_offset is r_addend, both ELF
 * virtual addresses. 0; -ENOMEM.
 */
int elf_relocations_each(const struct elf_image *img, bool (*fn)(const Elf64_Rela *rela, void *data),
			 void *data);

#endif
