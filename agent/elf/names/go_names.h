// SPDX-License-Identifier: Apache-2.0
/*
 * Finds function names in the function table of Go, which even stripped Go binaries have. Rank 1, private to
 * elf/.
 */
#ifndef PROFLET_ELF_GO_NAMES_H
#define PROFLET_ELF_GO_NAMES_H

#include "agent/elf/file/elf_image.h"
#include "agent/elf/names/elf_symbol.h"

/*
 * Sets ret[i] if addrs[i] lies in a Go function, and narrows its range if it lies between two. ret already
 * has the results of the symbol tables; names of Go functions are replaced, since the symbol tables may spell
 * them differently from the runtime ("runtime.memmove.abi0"). `lines`: also sets source lines. 0 or -ENOMEM;
 * a damaged table gives no names.
 */
int gonames_resolve(struct elf_image *img, const uint64_t *addrs, size_t n, bool lines,
		    struct elf_symbol *ret);

#endif
