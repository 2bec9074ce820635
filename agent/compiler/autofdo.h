// SPDX-License-Identifier: Apache-2.0
/*
 * The samples as a text profile for clang -fprofile-sample-use (LLVM sources:
 * llvm/include/llvm/ProfileData/SampleProfReader.h): for each function its lines, counted from the one where
 * it is declared, with their samples; calls that were inlined have lines of their own. Rank 4.
 */
#ifndef PROFLET_COMPILER_AUTOFDO_H
#define PROFLET_COMPILER_AUTOFDO_H

#include <stdint.h>
#include <stdio.h>

struct compiler_samples;

/*
 * symbol_dwarf_load (agent/symbol/dwarf.h) must have been called. *ret_left: samples at addresses of which
 * the source is not known. 0; -ENODATA: the program has no debug information; -EIO; -ENOMEM; -errno of
 * reading the program.
 */
int compiler_autofdo_write(struct compiler_samples *s, uint64_t *ret_left, FILE *f);

#endif
