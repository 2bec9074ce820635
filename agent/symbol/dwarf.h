// SPDX-License-Identifier: Apache-2.0
/*
 * Source lines, inlined calls and first lines of functions from the debug information of a file (DWARF 5,
 * sections 2.14, 3.3.8 and 6.2), for recordings that want them. Uses libdw of elfutils, which is loaded at
 * run time, since the agent on a node does not need it. Rank 2.
 */
#ifndef PROFLET_SYMBOL_DWARF_H
#define PROFLET_SYMBOL_DWARF_H

#include <stddef.h>
#include <stdint.h>

struct elf_symbol;

/* Loads libdw at the first call. 0; -ENOENT: it is not installed. Any thread. */
int symbol_dwarf_load(void);

/*
 * Adds source lines to those of the n symbols that have a name and no lines; addrs[i], in ascending order, is
 * the address of symbols[i]. `fd` is the file with the debug information, may have O_PATH, and its addresses
 * are `delta` less. The range of a symbol with lines becomes its address alone. Stops after a few seconds of
 * CPU time; the remaining symbols have a name only. Returns how many have no lines then, or -errno: -ENODATA
 * when there is no debug information. Only for files from a trusted source: libdw is not hardened against
 * hostile files.
 */
int symbol_dwarf_lines(int fd, uint64_t delta, const uint64_t *addrs, size_t n, struct elf_symbol *symbols);

/* A call as compilers name it. */
struct symbol_dwarf_call {
	const char *function;	/* linkage name */
	uint32_t line;		/* of the position in it */
	uint32_t start_line;	/* where it is declared; 0: unknown */
	uint32_t discriminator; /* which of several blocks on the line; DWARF 4, section 6.2.2 */
	uint64_t entry;		/* address at which it begins; 0: unknown, or inlined */
};

/*
 * Calls of address `i`, innermost first, the last is the function that contains it; borrowed for the call. A
 * negative result ends the search and is returned.
 */
typedef int (*symbol_dwarf_visit_fn)(size_t i, const struct symbol_dwarf_call *calls, size_t n, void *data);

/*
 * Visits those of the n addresses, in ascending order, of which the source is known, each once, in the order
 * of the units that contain them. Takes as long as it takes. Errors as symbol_dwarf_lines; -ENOMEM.
 */
int symbol_dwarf_calls(int fd, const uint64_t *addrs, size_t n, symbol_dwarf_visit_fn visit, void *data);

#endif
