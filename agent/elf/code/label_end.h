// SPDX-License-Identifier: Apache-2.0
/*
 * Finds where the function of a symbol without size ends. Assembly often gives no sizes; but the next symbol
 * may be far away, behind code of other object files that has none (Haskell behind `frame_dummy` of the start
 * files). Rank 1, private to elf/.
 */
#ifndef PROFLET_ELF_LABEL_END_H
#define PROFLET_ELF_LABEL_END_H

#include <stdint.h>

struct elf_image;

#define LABEL_BYTES_MAX (64u << 10) /* of one function that are read */

/*
 * The end of the function at `start`, at most `high`: an instruction that does not continue, behind which no
 * branch before it leads. `high` where that is not known: an instruction that cannot be decoded, a jump
 * through a register or memory, which may lead to more of the function; a function without end in
 * LABEL_BYTES_MAX; other machines than x86-64. Takes the bytes that it has read from *budget, and reads
 * nothing if there are none left.
 */
uint64_t label_end(const struct elf_image *img, uint64_t start, uint64_t high, uint64_t *budget);

#endif
