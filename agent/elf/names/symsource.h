// SPDX-License-Identifier: Apache-2.0
/*
 * The symbol tables that name the functions of one file: .symtab; without it .dynsym, and what was taken out
 * when the file was stripped: .gnu_debugdata in the file, .symtab of its separate debug file. Rank 1, private
 * to elf/.
 */
#ifndef PROFLET_ELF_SYMSOURCE_H
#define PROFLET_ELF_SYMSOURCE_H

#include "agent/elf/file/elf_image.h"
#include "agent/elf/file/strtab.h"

#define SYMSOURCES_MAX 3u

struct symsource {
	const struct elf_image *img; /* borrowed */
	struct elf_image *owned;     /* the same where it is ours; NULL */
	struct elf_section table;    /* of the symbols */
	struct elf_strtab strings;
	uint64_t delta;	  /* to be added to its addresses */
	bool *executable; /* owned; by section index: holds code */
	size_t n_sections;
};

/*
 * Opens all that there are; a damaged one is left out. `debug` is the separate debug file, NULL: none; it and
 * `img` are borrowed. 0 (*ret_n may be 0) or -ENOMEM. Free each with symsource_fini, also on error.
 */
int symsources_open(struct symsource ret[SYMSOURCES_MAX], unsigned *ret_n, struct elf_image *img,
		    struct elf_image *debug, uint64_t delta);
void symsource_fini(struct symsource *s);

#endif
