// SPDX-License-Identifier: Apache-2.0
/*
 * Finds symbols that a file defines by their names, as a loader does. Rank 1.
 */
#ifndef PROFLET_ELF_DEFINITION_H
#define PROFLET_ELF_DEFINITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_image;

struct elf_definition {
	const char *name; /* to look for */
	bool found;
	uint64_t va, bytes; /* of a function or an object */
};

/* A larger string table is not read for a search that has to look at each symbol. */
#define ELF_DEFINITION_STRINGS_MAX (64ull << 20)

/*
 * Looks for those of `d` (n entries) that are not found yet among the dynamic symbols. With a hash table
 * (.gnu.hash) it costs a few reads of some bytes for each name, else one pass over the symbols. 0, also when
 * nothing was found; -ENOMEM.
 */
int elf_definitions_find_dynamic(struct elf_image *img, struct elf_definition *d, size_t n);
/* The same in .symtab: one pass over the symbols. */
int elf_definitions_find_static(struct elf_image *img, struct elf_definition *d, size_t n);

#endif
