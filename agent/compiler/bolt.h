// SPDX-License-Identifier: Apache-2.0
/*
 * The samples as fdata, the profile of llvm-bolt (LLVM sources: bolt/include/bolt/Profile/DataReader.h), in
 * its form without branches: "no_lbr EVENT", then a line for each address: 1, the symbol, the offset from it
 * in hexadecimal, the samples. Rank 4.
 */
#ifndef PROFLET_COMPILER_BOLT_H
#define PROFLET_COMPILER_BOLT_H

#include <stdint.h>
#include <stdio.h>

struct compiler_samples;

/*
 * *ret_left: samples at addresses without a symbol. 0; -ENODATA: the program has no symbol table; -EIO;
 * -ENOMEM; -errno of reading the program.
 */
int compiler_bolt_write(struct compiler_samples *s, uint64_t *ret_left, FILE *f);

#endif
