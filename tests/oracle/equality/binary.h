// SPDX-License-Identifier: Apache-2.0
/* What the comparison must know of the ELF file besides its call-frame information, read by libelf alone. */
#ifndef PROFLET_EQUALITY_BINARY_H
#define PROFLET_EQUALITY_BINARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct binary_section {
	uint64_t start, end; /* ELF virtual addresses */
	bool plt;	     /* procedure linkage table, by its name */
};

struct binary {
	struct binary_section *sections; /* executable ones; owned */
	size_t n;
	bool go; /* made by Go's compiler: it has a function table, which need not have a section of its own
		  */
	bool x86;
};

/* 0 or -errno (-ENOEXEC: no ELF file). binary_fini() in both cases. */
int binary_read(struct binary *b, const char *path);
void binary_fini(struct binary *b);
bool binary_in_plt(const struct binary *b, uint64_t va);
/* Whether [start, end) lies in executable sections, but for gaps between them of less than `gap` bytes. */
bool binary_in_code(const struct binary *b, uint64_t start, uint64_t end, uint64_t gap);

#endif
