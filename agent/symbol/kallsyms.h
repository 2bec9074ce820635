// SPDX-License-Identifier: Apache-2.0
/*
 * Looks up kernel functions by address in a table built from the text of /proc/kallsyms: functions of the
 * kernel, its modules, BPF programs and trampolines. The table needs about 20 bytes per symbol and never
 * changes once built, so threads may share it as const. Rank 2.
 */
#ifndef PROFLET_SYMBOL_KALLSYMS_H
#define PROFLET_SYMBOL_KALLSYMS_H

#include <stddef.h>
#include <stdint.h>

struct kallsyms;

/* A function. Its names are borrowed from the table. */
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
	size_t n_symbols, n_modules; /* in the table; all names of one address count once */
	size_t bytes;		     /* memory of the table */
	size_t n_skipped;	     /* lines that are not a symbol, or that exceed a maximum */
};

#define KALLSYMS_SYMBOLS_MAX (1u << 20)
#define KALLSYMS_MODULES_MAX 4096u
/* A function ends where the next symbol of its module begins, but is no longer than this. */
#define KALLSYMS_FUNCTION_MAX (4ull << 20)
/* The last function of a module has no next symbol: it is assumed to be no longer than this. */
#define KALLSYMS_TAIL_MAX (64ull << 10)

/*
 * Builds the table from an open /proc/kallsyms, which is read in pieces, or from text in memory. Whether the
 * kernel shows addresses is decided by the credentials at the time of open(2). 0; -EPERM when the kernel
 * hides its addresses (kptr_restrict without CAP_SYSLOG: all are 0); -ENODATA without any text symbol;
 * -ENOMEM; -errno of read. *ret is owned by the caller.
 */
int kallsyms_read(struct kallsyms **ret, int fd);
int kallsyms_parse(struct kallsyms **ret, const char *text, size_t len);
void kallsyms_free(struct kallsyms *t); /* NULL is fine */
/*
 * Finds the function that covers `addr`. 0; -ENOENT for addresses in front of the first symbol, behind
 * _etext, or far behind the last function of a module. If an address has several names, a global name is
 * preferred to a local one, then a strong to a weak one, then the one with fewer leading underscores.
 */
int kallsyms_lookup(const struct kallsyms *t, uint64_t addr, struct kallsyms_symbol *ret);
/* 0 or -ENOENT past the last one. */
int kallsyms_module(const struct kallsyms *t, size_t index, struct kallsyms_module *ret);
void kallsyms_table_stats(const struct kallsyms *t, struct kallsyms_stats *ret);

#endif
