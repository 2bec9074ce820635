// SPDX-License-Identifier: Apache-2.0
/*
 * Strings of an ELF string table, read from the file one at a time: the tables of debug builds are larger
 * than the memory that the agent may use. The last window that was read is kept.
 */
#ifndef PROFLET_ELF_STRTAB_H
#define PROFLET_ELF_STRTAB_H

#include "agent/elf/file/elf_image.h"

#define ELF_STRING_MAX 4095 /* bytes; a longer name is cut off */

struct elf_strtab {
	const struct elf_image *img; /* borrowed */
	uint64_t offset, bytes;	     /* of the table in the file */
	uint64_t window;	     /* table offset of buf[0] */
	size_t n_buf;		     /* 0: nothing read yet */
	char buf[ELF_STRING_MAX + 1];
};

/* Opens the string table that the symbol table `symbols` links to. False: there is none, or it lies outside
 * the file. */
bool elf_strtab_open(struct elf_strtab *s, const struct elf_image *img, const struct elf_section *symbols);
/* The string at offset `at`, "" where it cannot be read. Borrowed until the next call. */
const char *elf_strtab_get(struct elf_strtab *s, uint64_t at);

#endif
