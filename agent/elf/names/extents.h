// SPDX-License-Identifier: Apache-2.0
/*
 * Where functions that have no symbol begin and end: their FDEs in .eh_frame say it (Linux Standard Base 5,
 * section 10.6.1), also in stripped files. Rank 1, private to elf/.
 */
#ifndef PROFLET_ELF_EXTENTS_H
#define PROFLET_ELF_EXTENTS_H

#include <stddef.h>
#include <stdint.h>

struct elf_image;
struct elf_symbol;

/*
 * For each of the n addresses whose answer has no name and which an FDE covers that begins within the
 * answer's range: the range becomes that of the FDE, and `unnamed` is set. Of several FDEs the one that
 * starts last counts. Where none covers it, or one that begins before, the answer's range ends where FDEs
 * begin and begins where they end. 0 (also when there are none) or -ENOMEM.
 */
int extents_resolve(struct elf_image *img, const uint64_t *addrs, size_t n, struct elf_symbol *ret);

#endif
