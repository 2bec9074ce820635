// SPDX-License-Identifier: Apache-2.0
/*
 * Derives rows for functions without call-frame information from their instructions. Rank 1, private to elf/.
 */
#ifndef PROFLET_ELF_ASMROWS_H
#define PROFLET_ELF_ASMROWS_H

#include "agent/elf/cfi/row_spans.h"

#define ASM_CHUNK_BYTES (128u << 10) /* bytes of code that are analysed together */
#define ASM_BYTES_MAX \
	(32u << 20) /* bytes of code without call-frame information that are analysed in one file */

/*
 * Adds spans of ELF_CODE for code in executable sections that no span covers yet, x86-64 only. To be called
 * after all other sources were read. 0, -ENOMEM.
 */
int asmrows_read(struct row_spans *spans, const struct elf_image *img);
/*
 * Does the same for `n` bytes at `va` inside one gap between spans; `last`: the gap ends with them. *ret_done
 * receives how many of them are finished, at least a quarter; the remaining ones must be passed again,
 * followed by more. 0, -ENOMEM.
 */
int asmrows_read_code(struct row_spans *spans, uint64_t va, const uint8_t *code, uint32_t n, bool last,
		      uint32_t *ret_done);

#endif
