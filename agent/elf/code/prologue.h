// SPDX-License-Identifier: Apache-2.0
/* Where the beginning of a function saves a register. Rank 1. */
#ifndef PROFLET_ELF_PROLOGUE_H
#define PROFLET_ELF_PROLOGUE_H

#include <stddef.h>
#include <stdint.h>

#define PROLOGUE_BYTES 96u /* enough of a function's beginning */

/*
 * How far from the CFA (bytes, less than 0) the x86-64 function at `code` pushes a register, given by its
 * number in the encoding, before anything that may not be run. 0: it does not, or that is not known.
 */
int32_t prologue_saves(const uint8_t *code, size_t n, uint8_t reg);

#endif
