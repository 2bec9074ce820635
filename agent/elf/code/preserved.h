// SPDX-License-Identifier: Apache-2.0
/*
 * Finds registers that a function does not write although the calling convention would allow it. Hand-written
 * assembly relies on this: OpenSSL's AES-GCM has its CFA in rax while it calls its own helpers. Rank 1,
 * private to elf/.
 */
#ifndef PROFLET_ELF_PRESERVED_H
#define PROFLET_ELF_PRESERVED_H

#include <stdint.h>

struct elf_image;

#define PRESERVED_BYTES_MAX 16384u /* bytes of a function that are decoded */

/*
 * Returns the registers that no instruction in [start, end) writes, as bits of DWARF numbers. 0 if that is
 * unknown: other machines than x86-64, longer functions, unknown instructions, calls.
 */
uint32_t preserved_registers(const struct elf_image *img, uint64_t start, uint64_t end);

#endif
