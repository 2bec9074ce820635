// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the bounds of functions that have no symbol: their FDEs in .eh_frame have them, even in stripped
 * files (Linux Standard Base 5, section 10.6.1). Rank 1, private to elf/.
 */
#ifndef PROFLET_ELF_EXTENTS_H
#define PROFLET_ELF_EXTENTS_H

#include <stddef.h>
#include <stdint.h>

struct elf_image;
struct elf_symbol;

/*
 * For each of the n addresses that has no name: if an FDE covers it that begins within the range of the
 * result, the range becomes that of the FDE, and `unnamed` is set. Of several FDEs, the one that starts last
 * is used. If no FDE covers the address, or only one that begins earlier, the range of the result is cut so
 * that no FDE begins or ends inside it. 0, also without .eh_frame; or -ENOMEM.
 */
int extents_resolve(struct elf_image *img, const uint64_t *addrs, size_t n, struct elf_symbol *ret);

#endif
