// SPDX-License-Identifier: Apache-2.0
/*
 * .gnu_debugdata: an ELF file inside of one, compressed with xz, that has the functions which .dynsym leaves
 * out ("MiniDebugInfo" of the GDB manual; Fedora's and its relatives' packages have it). Rank 1, private to
 * elf/.
 */
#ifndef PROFLET_ELF_DEBUGDATA_H
#define PROFLET_ELF_DEBUGDATA_H

#include "agent/elf/file/elf_image.h"

#define DEBUGDATA_STORED_MAX (16ull << 20) /* bytes, compressed */
#define DEBUGDATA_MAX (64ull << 20)	   /* bytes that come out */
#define DEBUGDATA_WORK_MAX (64ull << 20)   /* bytes that the decoder may take; xz -9 takes as much */

/*
 * The file inside. It lies in anonymous memory until it is freed. 0; -ENOENT when there is none; -EINVAL:
 * damaged; -EFBIG above a maximum; -ENOTSUP: no xz; -ENOMEM; -errno; errors of elf_image_open.
 */
int debugdata_open(struct elf_image **ret, struct elf_image *img);

#endif
