// SPDX-License-Identifier: Apache-2.0
/*
 * Function names by address, found in one pass over the symbol tables for a batch of addresses: nothing of
 * the tables is kept, so the memory is that of the names which were asked for. Rank 1.
 */
#ifndef PROFLET_ELF_SYMTAB_H
#define PROFLET_ELF_SYMTAB_H

#include <stddef.h>
#include <stdint.h>

#include "agent/elf/names/elf_symbol.h"

struct elf_image;

/*
 * Fills ret[i] for addrs[i] (any order, n entries) from .symtab, else .dynsym with .gnu_debugdata, then PLT
 * entries ("puts@plt"), then the function table of Go.
 * What has no name then may have its function's range from .eh_frame.
 * 0 (also when the file has no symbols: all names NULL), -ENOMEM. Free each name with free().
 */
int elf_symtab_resolve(struct elf_image *img, const uint64_t *addrs, size_t n, struct elf_symbol *ret);

/* The same, and where the file has no .symtab with that of its separate debug file, whose addresses are
 * `delta` less; `debug` NULL: there is none. And with the lines of Go functions: free them, too. */
int elf_symtab_resolve_with(struct elf_image *img, struct elf_image *debug, uint64_t delta,
			    const uint64_t *addrs, size_t n, struct elf_symbol *ret);

#endif
