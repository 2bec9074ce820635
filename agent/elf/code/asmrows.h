// SPDX-License-Identifier: Apache-2.0
/* Rows of functions without call-frame information, from their instructions. Rank 1, private to elf/. */
#ifndef PROFLET_ELF_ASMROWS_H
#define PROFLET_ELF_ASMROWS_H

#include "agent/elf/cfi/row_spans.h"

#define ASM_CHUNK_BYTES (128u << 10) /* of code that are looked at together */
#define ASM_BYTES_MAX (32u << 20)    /* of code without information, in one file */

/*
 * Adds spans of ELF_CODE for code of the image's executable sections that no span covers yet, x86-64 only. To
 * be called when everything else has been read. 0, -ENOMEM.
 */
int asmrows_read(struct row_spans *spans, const struct elf_image *img);
/*
 * The same for `n` bytes at `va` of one gap; `last`: it ends with them. *ret_done: how many of them are done,
 * at least half; what begins there is to be looked at together with what follows. 0, -ENOMEM.
 */
int asmrows_read_code(struct row_spans *spans, uint64_t va, const uint8_t *code, uint32_t n, bool last,
		      uint32_t *ret_done);

#endif
