// SPDX-License-Identifier: Apache-2.0
/* The result of looking up the name of one address. */
#ifndef PROFLET_ELF_SYMBOL_H
#define PROFLET_ELF_SYMBOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/frame.h"

struct elf_symbol {
	uint64_t start, end; /* ELF virtual addresses [start, end) with the same result; if name is NULL, a
				range without symbols */
	char *name;   /* linkage name without version suffix, owned; NULL: no symbol covers the address */
	bool unnamed; /* a function without a symbol begins at `start` */
	struct frame_line *lines; /* source lines of a Go function, innermost inlined call first; one block,
				     owned; or NULL */
	size_t n_lines;
};

#endif
