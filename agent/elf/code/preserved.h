// SPDX-License-Identifier: Apache-2.0
/*
 * Registers that a function leaves as they are although the calling convention does not ask it to.
 * Hand-written assembly relies on that: OpenSSL's AES-GCM has its CFA in rax over calls of its own helpers.
 * Rank 1, private to elf/.
 */
#ifndef PROFLET_ELF_PRESERVED_H
#define PROFLET_ELF_PRESERVED_H

#include <stdint.h>

struct elf_image;

#define PRESERVED_BYTES_MAX 16384u /* of a function that is looked at */

/*
 * By bit, DWARF numbers: the registers that no instruction in [start, end) writes. 0 when that cannot be
 * told: other machines than x86-64, longer functions, instructions that are not known, calls.
 */
uint32_t preserved_registers(const struct elf_image *img, uint64_t start, uint64_t end);

#endif
