// SPDX-License-Identifier: Apache-2.0
/* Reads what the comparison needs of the ELF file besides its call-frame information, by libelf alone. */
#ifndef PROFLET_EQUALITY_BINARY_H
#define PROFLET_EQUALITY_BINARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct binary_section {
	uint64_t start, end; /* ELF virtual addresses */
	bool plt;	     /* the section is a procedure linkage table, by its name */
};

struct binary {
	struct binary_section *sections; /* executable sections; owned */
	size_t n;
	bool analysed; /* of a machine whose instructions proflet analyses where there is no FDE */
	bool go; /* made by Go's compiler: it has a function table, perhaps without a section of its own */
};

/* 0 or -errno (-ENOEXEC: not an ELF file). Call binary_fini() in both cases. */
int binary_read(struct binary *b, const char *path);
void binary_fini(struct binary *b);
bool binary_in_plt(const struct binary *b, uint64_t va);
/* True when [start, end) is in executable sections, apart from gaps of less than `gap` bytes between them. */
bool binary_in_code(const struct binary *b, uint64_t start, uint64_t end, uint64_t gap);

#endif
