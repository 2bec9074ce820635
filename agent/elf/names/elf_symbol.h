// SPDX-License-Identifier: Apache-2.0
/* The result of looking up the name of one address. */
#ifndef PROFLET_ELF_SYMBOL_H
#define PROFLET_ELF_SYMBOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/frame.h"

struct elf_symbol {
	uint64_t start, end; /* addresses with the same result; without symbols if name is NULL */
	char *name;   /* linkage name without version suffix, owned; NULL: no symbol covers the address */
	bool unnamed; /* a function without a symbol begins at `start` */
	struct frame_line *lines; /* of a Go function, innermost call first; one block, owned; or NULL */
	size_t n_lines;
};

#endif
