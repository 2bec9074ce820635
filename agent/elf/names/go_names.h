// SPDX-License-Identifier: Apache-2.0
/* Function names from a Go function table: Go binaries have them even when they are stripped. Rank 1, private
 * to elf/. */
#ifndef PROFLET_ELF_GO_NAMES_H
#define PROFLET_ELF_GO_NAMES_H

#include "agent/elf/file/elf_image.h"
#include "agent/elf/names/elf_symbol.h"

/*
 * Fills ret[i] where addrs[i] lies in a Go function, and narrows the gap where it lies between two. ret is
 * filled as by the symbol tables, whose names of Go functions can be spelled otherwise than the runtime's own
 * ("runtime.memmove.abi0"): they are replaced. 0 or -ENOMEM; damaged tables give no names. `lines`: with
 * places in the source.
 */
int gonames_resolve(struct elf_image *img, const uint64_t *addrs, size_t n, bool lines,
		    struct elf_symbol *ret);

#endif
