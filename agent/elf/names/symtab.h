// SPDX-License-Identifier: Apache-2.0
/*
 * Finds function names for a batch of addresses in one pass over the symbol tables. Symbols are not stored,
 * so the memory used is that of the names found. Rank 1.
 */
#ifndef PROFLET_ELF_SYMTAB_H
#define PROFLET_ELF_SYMTAB_H

#include <stddef.h>
#include <stdint.h>

#include "agent/elf/names/elf_symbol.h"

struct elf_image;

/*
 * Sets ret[i] for addrs[i] (n entries in any order). The sources are, in this order, .symtab, or .dynsym with
 * .gnu_debugdata if there is none; PLT slots ("puts@plt"); the function table of Go. If none has a name, the
 * range of the function may be known from .eh_frame. 0, also when the file has no symbols (all names are
 * NULL); -ENOMEM. The caller frees each name.
 */
int elf_symtab_resolve(struct elf_image *img, const uint64_t *addrs, size_t n, struct elf_symbol *ret);

/*
 * The same, and uses .symtab of the separate debug file `debug` (NULL: none) if the file itself has none;
 * addresses in the debug file are `delta` less. Also sets the lines of Go functions, which the caller frees,
 * too.
 */
int elf_symtab_resolve_with(struct elf_image *img, struct elf_image *debug, uint64_t delta,
			    const uint64_t *addrs, size_t n, struct elf_symbol *ret);

#endif
