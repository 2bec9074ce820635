// SPDX-License-Identifier: Apache-2.0
/* What jittable.c, which keeps tables, and jittable_sort.c, which says what goes into one, share. */
#ifndef PROFLET_SYMBOL_JITTABLE_PRIVATE_H
#define PROFLET_SYMBOL_JITTABLE_PRIVATE_H

#include "agent/symbol/jittable.h"

#define JIT_NAME_NONE UINT32_MAX

struct jit_entry {
	uint64_t start, end;
	uint64_t from; /* of a move: where it was; its name is that of what was there. 0: none */
	uint32_t name; /* offset in the builder's names, JIT_NAME_NONE: the range has none any more */
	uint32_t order;
};

struct jit_range {
	uint64_t start;
	uint32_t bytes, name;
};

struct jit_table {
	size_t n, names_bytes;
	struct jit_range *v; /* owned; ascending, none overlapping */
	char *names;	     /* owned; each with its NUL */
};

/* Ranges, ascending, none touching. */
struct jit_covered {
	struct jit_entry *v; /* owned */
	size_t n;
};

/* The range of `t` (NULL: empty) that holds the address, or NULL. Borrowed. */
const struct jit_range *jit_table_range(const struct jit_table *t, uint64_t address);
/*
 * Leaves in the builder what has a name and is overlapped by nothing later, sorted by start; *ret are the
 * ranges that any entry had. 0 or -ENOMEM; the order of the entries is lost either way.
 */
int jit_builder_sort(struct jit_builder *b, const struct jit_table *old, struct jit_covered *ret);

#endif
