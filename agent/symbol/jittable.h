// SPDX-License-Identifier: Apache-2.0
/*
 * Named ranges of code that a process generated, as its runtime lists them. A builder collects entries in
 * the order of the list; what they change is written as flat bytes, of which a table is made that finds the
 * entry of an address. Runtimes reuse code memory, so an entry replaces all earlier entries that it
 * overlaps. Pure; all sizes are bounded, since the bytes are foreign. Private to symbol/ and its tests. Rank
 * 2.
 */
#ifndef PROFLET_SYMBOL_JITTABLE_H
#define PROFLET_SYMBOL_JITTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/buf.h"

#define JIT_NAME_MAX 1024u		 /* bytes of a name; longer names are cut */
#define JIT_CODE_MAX (1ull << 30)	 /* bytes of a function */
#define JIT_ADDRESS_MAX (1ull << 48)	 /* end of user addresses */
#define JIT_SYMBOLS_MAX (256u << 10)	 /* of a table */
#define JIT_NAMES_MAX (8u << 20)	 /* bytes of a table's names */
#define JIT_PENDING_MAX (64u << 10)	 /* entries that a builder holds */
#define JIT_PENDING_NAMES_MAX (4u << 20) /* bytes of their names */
/* Bytes that jit_builder_write appends at most. */
#define JIT_CHANGES_MAX (32u + JIT_PENDING_MAX * 40u + JIT_PENDING_NAMES_MAX)

struct jit_entry;

struct jit_builder {
	struct jit_entry *v; /* owned; in the order of the list */
	size_t n, cap;
	struct buf names;
};

void jit_builder_init(struct jit_builder *b);
void jit_builder_fini(struct jit_builder *b);
/*
 * Adds code with this name at [start, start + size). 0; -EINVAL: the range or name is invalid, nothing was
 * added; -ENOSPC: the builder is full, make a table of it first; -ENOMEM.
 */
int jit_builder_add(struct jit_builder *b, uint64_t start, uint64_t size, const char *name, size_t len);
/* The code that began at `from` was moved. Errors as above. */
int jit_builder_move(struct jit_builder *b, uint64_t from, uint64_t to, uint64_t size);

struct jit_table;

struct jit_symbol {
	const char *name; /* borrowed from the table */
	uint64_t start, end;
};

/*
 * Writes what the builder's entries change in a table, and empties the builder. Appends to `to`; names for
 * which there is no room are counted in *n_cut. 0 or -ENOMEM.
 */
int jit_builder_write(struct jit_builder *b, struct buf *to, uint64_t *n_cut);
/*
 * Makes a table of what jit_builder_write has written and the entries of `old` (borrowed; NULL: none) that
 * this does not replace. Takes nothing for granted about the bytes, since another process wrote them. Beyond
 * the maximum, entries of `old` are discarded and counted in *n_cut. 0, -EBADMSG or -ENOMEM.
 */
int jit_table_read(struct jit_table **ret, const struct jit_table *old, const void *bytes, size_t len,
		   uint64_t *n_cut);
void jit_table_free(struct jit_table *t); /* NULL is fine */
bool jit_table_find(const struct jit_table *t, uint64_t address, struct jit_symbol *ret);
size_t jit_table_len(const struct jit_table *t);   /* 0 for NULL */
size_t jit_table_bytes(const struct jit_table *t); /* 0 for NULL */

#endif
