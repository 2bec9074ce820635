// SPDX-License-Identifier: Apache-2.0
/*
 * Builds the unwind table of one ELF file from everything the file has: call-frame information, the function
 * table of Go, machine code.
 */
#ifndef PROFLET_ELF_UNWIND_TABLE_H
#define PROFLET_ELF_UNWIND_TABLE_H

#include "agent/elf/cfi/rows.h"

struct elf_image;

/*
 * Compiles the call-frame information of `img` (Linux Standard Base 5 section 10.6, DWARF 5 section 6.4):
 * .eh_frame, the function table of Go (.gopclntab) where that covers nothing, and .debug_frame where neither
 * does; what none describes may be known by its code,
 * and so is code that is described falsely. Where FDEs of one section overlap, the one that
 * starts last wins as far as it reaches, as in the binary search of GCC's unwinder, then the outer one holds
 * again; of two that start together the first in the section wins. FDEs that start outside the executable
 * segments are skipped.
 * Memory while it is made: the sections, and for each of their bytes about one more in real files, some 40 at
 * worst, up to CFI_ROWS_MAX rows and RULES_MAX rules; past these it is -EFBIG.
 * 0; -ENODATA when the file has none (an empty table is not returned); -ENOTSUP for a machine that is not
 * x86-64 or aarch64; -EFBIG (section or table too large to be real); -EINVAL (section outside the file);
 * -ENOMEM; -errno of a read. *ret is owned by the caller.
 */
int elf_rows_build(struct elf_rows **ret, struct elf_image *img);
/*
 * The same with the .debug_frame of a separate debug file (agent/elf/file/debuglink.h) where `img` itself
 * says nothing; `delta` is added to its addresses.
 */
int elf_rows_build_with(struct elf_rows **ret, struct elf_image *img, struct elf_image *debug,
			uint64_t delta);

#endif
