// SPDX-License-Identifier: Apache-2.0
/*
 * Lines of places in the source text of V8's scripts, read in another process's memory. V8 itself counts
 * lines only when an error or a debugger wants them, so they are counted here, from the text that the script
 * has. The process runs meanwhile, and every byte is foreign: the script is recognised by its number before
 * and after the text was read, since objects move and their memory is used again. Pure. Runs where the bytes
 * can do no harm (agent/parser). Rank 1.
 */
#ifndef PROFLET_ELF_RUNTIME_V8_LINES_H
#define PROFLET_ELF_RUNTIME_V8_LINES_H

#include <stddef.h>
#include <stdint.h>

#include "agent/elf/runtime/v8_classes.h"

struct v8_layout;

#define V8_LINES_BYTES_MAX (128ull << 20) /* of source text that are read for one job */

struct v8_memory {
	/* Reads `n` bytes at an address. 0; -EFAULT: not all of them are there. */
	int (*read)(void *to, uint64_t address, size_t n, void *data);
	void *data;
	uint64_t left; /* bytes that may be read yet */
};

/* A script as the BPF program saw it in a sample: a pointer as V8 has it, and its number, a Smi. */
struct v8_script {
	uint64_t address, id;
};

/*
 * Writes to ret_lines[] the lines, from 1 on, of `n` places, which are numbers of characters in ascending
 * order; 0: the text is shorter. Counts as V8 does: lines end where ECMA-262 has line terminators (LF, CR,
 * CR LF, U+2028, U+2029), and a script that begins within a file begins at that line. 0; -ESTALE: the script
 * is not there, or not any more; -ENOTSUP: its text is in no form that is known; -EFAULT; -E2BIG: too much
 * was read already. `ret_members` (NULL: not wanted) gets the classes of functions whose parameters begin at
 * these places.
 */
int v8_lines_read(struct v8_memory *m, const struct v8_layout *l, const struct v8_script *script,
		  const uint32_t *places, uint32_t *ret_lines, struct v8_member *ret_members, size_t n);

#endif
