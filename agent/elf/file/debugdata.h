// SPDX-License-Identifier: Apache-2.0
/*
 * .gnu_debugdata: an ELF file compressed with xz inside another one. It has the symbols of the functions that
 * .dynsym leaves out ("MiniDebugInfo" in the GDB manual; packages of Fedora and its relatives have it).
 */
#ifndef PROFLET_ELF_DEBUGDATA_H
#define PROFLET_ELF_DEBUGDATA_H

#include "agent/elf/file/elf_image.h"

#define DEBUGDATA_STORED_MAX (16ull << 20) /* bytes of the section */
#define DEBUGDATA_MAX (64ull << 20)	   /* bytes after decompression */
#define DEBUGDATA_WORK_MAX \
	(64ull << 20) /* bytes of memory for the decoder; files made with xz -9 need as much */

/*
 * Opens the file inside, which the image has in memory: parser processes can create no file. 0; -ENOENT:
 * there is none; -EINVAL: damaged; -EFBIG: above a maximum; -ENOTSUP: not xz; -ENOMEM; -errno; errors of
 * elf_image_open.
 */
int debugdata_open(struct elf_image **ret, struct elf_image *img);

#endif
