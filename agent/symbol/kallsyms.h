// SPDX-License-Identifier: Apache-2.0
/*
 * Kernel function names by address, from the text of /proc/kallsyms: the kernel, its modules, BPF programs
 * and trampolines. About 20 bytes a symbol, immutable once built (share it between threads as const). Rank
 * 2.
 */
#ifndef PROFLET_SYMBOL_KALLSYMS_H
#define PROFLET_SYMBOL_KALLSYMS_H

#include <stddef.h>
#include <stdint.h>

struct kallsyms;

/* A function; the names are borrowed from the table. */
struct kallsyms_symbol {
	const char *name;
	const char *module;  /* without brackets: "ext4", "bpf"; NULL for the kernel itself */
	size_t module_index; /* for kallsyms_module; 0 is the kernel */
	uint64_t start, end; /* [start, end) */
};

struct kallsyms_module {
	const char *name;    /* NULL for the kernel itself */
	uint64_t start, end; /* [start, end) covers all its functions; both 0 when it has none */
};

struct kallsyms_stats {
	size_t n_symbols, n_modules; /* kept; aliases of one address count once */
	size_t bytes;		     /* memory of the table */
	size_t n_skipped;	     /* lines that are no symbol, or beyond a maximum */
};

#define KALLSYMS_SYMBOLS_MAX (1u << 20)
#define KALLSYMS_MODULES_MAX 4096u
/* A function ends where the next symbol of its module begins, but is no longer than this. */
#define KALLSYMS_FUNCTION_MAX (4ull << 20)
/* The last function of a module has no such end: what lies further behind its start is not named after it. */
#define KALLSYMS_TAIL_MAX (64ull << 10)

/*
 * Builds the table from an open /proc/kallsyms (whose rights are those of the moment of open(2)), in
 * pieces, or from text in memory. 0; -EPERM when the kernel hides its addresses (kptr_restrict, no
 * CAP_SYSLOG: all are 0); -ENODATA without any text symbol; -ENOMEM; -errno of read. *ret is owned by the
 * caller.
 */
int kallsyms_read(struct kallsyms **ret, int fd);
int kallsyms_parse(struct kallsyms **ret, const char *text, size_t len);
void kallsyms_free(struct kallsyms *t); /* NULL is fine */
/*
 * The function that covers `addr`. 0 or -ENOENT: nothing is made up for addresses in front of the first
 * symbol, behind _etext, or far behind the last function of a module. Of several names of an address the
 * global one is taken, strong before weak, then the one with fewer underscores in front.
 */
int kallsyms_lookup(const struct kallsyms *t, uint64_t addr, struct kallsyms_symbol *ret);
/* 0 or -ENOENT past the last one. */
int kallsyms_module(const struct kallsyms *t, size_t index, struct kallsyms_module *ret);
void kallsyms_table_stats(const struct kallsyms *t, struct kallsyms_stats *ret);

#endif
