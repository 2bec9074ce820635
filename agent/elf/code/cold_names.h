// SPDX-License-Identifier: Apache-2.0
/*
 * Which names of a symbol table are of parts that GCC moved away from a function: "name.cold", "name.cold.7".
 * The string table is read once from its begin to its end: linkers sort it by the ends of the names, so that
 * to look each name up is a read of the file for each.
 */
#ifndef PROFLET_ELF_COLD_NAMES_H
#define PROFLET_ELF_COLD_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_strtab;

struct cold_name {
	uint64_t start, mark; /* offsets in the table: of the string, and of ".cold" in it */
};

/* Zeros: no such names. */
struct cold_names {
	struct cold_name *v; /* ascending */
	size_t n, cap;
};

/* 0; -ENOMEM; -errno: the table cannot be read. Release it with cold_names_fini in any case. */
int cold_names_read(struct cold_names *ret, const struct elf_strtab *strings);
void cold_names_fini(struct cold_names *c);
/* Whether the name at that offset of the table, which may be the end of a longer one, is of such a part. */
bool cold_names_has(const struct cold_names *c, uint64_t name);

#endif
