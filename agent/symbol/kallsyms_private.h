// SPDX-License-Identifier: Apache-2.0
/* What the files kallsyms*.c share. In order: line, builder (kallsyms_build, _finish), table (kallsyms). */
#ifndef PROFLET_SYMBOL_KALLSYMS_PRIVATE_H
#define PROFLET_SYMBOL_KALLSYMS_PRIVATE_H

#include <stdbool.h>

#include "agent/base/buf.h"
#include "agent/symbol/kallsyms.h"

/*
 * Symbols whose addresses fit 32 bits behind `base`: one group on x86-64, a few where modules lie far away.
 */
struct kallsyms_group {
	uint64_t base;
	size_t first, n; /* indices into the arrays below */
};

struct kallsyms_owner {
	uint32_t name; /* in `names`; 0: the kernel itself */
	uint64_t start, end;
};

/* Sorted by address, each address once. A symbol with name 0 ends the one before it and names nothing. */
struct kallsyms {
	struct kallsyms_group *groups; /* owned, as all below */
	size_t n_groups;
	uint32_t *offsets; /* from the group's base */
	uint32_t *symbol_names;
	uint16_t *symbol_owners;
	size_t n_symbols;
	char *names; /* NUL terminated strings; the first is "" */
	size_t names_bytes;
	struct kallsyms_owner *owners;
	size_t n_owners;
	size_t n_skipped;
};

struct kallsyms_line {
	uint64_t addr;
	char type;
	const char *name, *module; /* borrowed from the text; module is NULL for the kernel */
	size_t name_len, module_len;
};

/* A symbol before the table is finished. */
struct kallsyms_raw {
	uint64_t addr;
	uint32_t name;
	uint16_t owner;
	uint16_t rank; /* among the names of an address the lowest is taken */
};

#define KALLSYMS_RANK_GAP UINT16_MAX /* a mark of the linker script, not a function */

struct kallsyms_builder {
	struct kallsyms_raw *raws; /* owned */
	size_t n_raws, cap;
	struct buf names;
	size_t last_name;	       /* offset of the name added last */
	struct kallsyms_owner *owners; /* owned, KALLSYMS_MODULES_MAX of them; [0] is the kernel */
	size_t n_owners, last_owner;
	uint64_t etext;
	size_t n_text, n_nonzero, n_skipped;
};

/* False for a line that is no symbol. Without the newline. */
bool kallsyms_line_parse(const char *p, size_t len, struct kallsyms_line *ret);
bool kallsyms_line_named(const struct kallsyms_line *l, const char *name);
uint16_t kallsyms_line_rank(const struct kallsyms_line *l);
/*
 * Makes the table; what it keeps is taken out of the builder. 0, -EPERM, -ENODATA, -ENOMEM as
 * kallsyms_read.
 */
int kallsyms_builder_finish(struct kallsyms_builder *b, struct kallsyms **ret);
/* End of symbol `i` of group `g` as kallsyms.h defines it. */
uint64_t kallsyms_symbol_end(const struct kallsyms *t, size_t g, size_t i);

#endif
