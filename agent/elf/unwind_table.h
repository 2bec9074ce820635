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
 * Builds the unwind table of `img` (Linux Standard Base 5 section 10.6, DWARF 5 section 6.4) from .eh_frame;
 * then .gopclntab, the function table of Go, for addresses that .eh_frame does not cover; then .debug_frame.
 * Addresses that none of them covers may get rows by their machine code. So do addresses whose FDEs
 * contradict the code.
 *
 * If FDEs of one section overlap, the one that starts last applies for its whole range, as in the binary
 * search of GCC's unwinder; behind its end the enclosing one applies again. Of two that start at the same
 * address, the first in the section applies. FDEs that start outside the executable segments are skipped.
 *
 * While the table is built, it needs memory for the sections, and in real files about one byte more for each
 * of their bytes, at worst some 40. CFI_ROWS_MAX and RULES_MAX bound it.
 *
 * 0; -ENODATA when there is no row (no empty table is returned); -ENOTSUP for a machine other than x86-64 and
 * aarch64; -EFBIG (section or table exceeds a maximum); -EINVAL (section outside the file); -ENOMEM; -errno
 * of a read. *ret is owned by the caller.
 */
int elf_rows_build(struct elf_rows **ret, struct elf_image *img);
/*
 * The same, and uses the .debug_frame of a separate debug file (agent/elf/file/debuglink.h) for addresses
 * that no section of `img` covers. `delta` is added to the addresses in `debug`.
 */
int elf_rows_build_with(struct elf_rows **ret, struct elf_image *img, struct elf_image *debug,
			uint64_t delta);

#endif
