// SPDX-License-Identifier: Apache-2.0
/* What a look-up says of one address. */
#ifndef PROFLET_ELF_SYMBOL_H
#define PROFLET_ELF_SYMBOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/frame.h"

struct elf_symbol {
	uint64_t start, end; /* [start, end) ELF virtual addresses for which the answer holds; a gap when name
				is NULL */
	char *name;   /* linkage name without version suffix, owned; NULL: no symbol covers the address */
	bool unnamed; /* a function without a symbol: it begins at `start` */
	struct frame_line *lines; /* of a Go function, innermost inlined call first; one block, owned; NULL */
	size_t n_lines;
};

#endif
