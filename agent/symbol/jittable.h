// SPDX-License-Identifier: Apache-2.0
/*
 * Named ranges of code that a process made at run time, as its runtime lists them: a builder takes the
 * entries in the order of the list, a table answers addresses. Code memory is used again, so an entry takes
 * all earlier ones that it overlaps out of the table. Pure, bounded, foreign bytes. Inside symbol/ and its
 * tests. Rank 2.
 */
#ifndef PROFLET_SYMBOL_JITTABLE_H
#define PROFLET_SYMBOL_JITTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/buf.h"

#define JIT_NAME_MAX 1024u		 /* bytes of a name; what is longer is cut */
#define JIT_CODE_MAX (1ull << 30)	 /* bytes of a function */
#define JIT_ADDRESS_MAX (1ull << 48)	 /* where user addresses end */
#define JIT_SYMBOLS_MAX (256u << 10)	 /* of a table */
#define JIT_NAMES_MAX (16u << 20)	 /* bytes of a table's names */
#define JIT_PENDING_MAX (64u << 10)	 /* entries that a builder takes */
#define JIT_PENDING_NAMES_MAX (8u << 20) /* bytes of their names */

struct jit_entry;

struct jit_builder {
	struct jit_entry *v; /* owned; in the order they came */
	size_t n, cap;
	struct buf names;
};

void jit_builder_init(struct jit_builder *b);
void jit_builder_fini(struct jit_builder *b);
/* Code of that name at [start, start + size). 0; -EINVAL: no such range or name, nothing is added; -ENOSPC:
 * the builder is full, make a table of it first; -ENOMEM. */
int jit_builder_add(struct jit_builder *b, uint64_t start, uint64_t size, const char *name, size_t len);
/* What began at `from` has moved. Errors as above. */
int jit_builder_move(struct jit_builder *b, uint64_t from, uint64_t to, uint64_t size);

struct jit_table;

struct jit_symbol {
	const char *name; /* borrowed from the table */
	uint64_t start, end;
};

/*
 * A table of what is left of `old` (borrowed, NULL: nothing) and the builder, which is empty then. At the
 * maximum entries of `old` are given up, *n_cut is increased by their number. 0 or -ENOMEM.
 */
int jit_table_new(struct jit_table **ret, const struct jit_table *old, struct jit_builder *b,
		  uint64_t *n_cut);
void jit_table_free(struct jit_table *t); /* NULL is fine */
bool jit_table_find(const struct jit_table *t, uint64_t address, struct jit_symbol *ret);
size_t jit_table_len(const struct jit_table *t);   /* 0 for NULL */
size_t jit_table_bytes(const struct jit_table *t); /* 0 for NULL */

#endif
