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

#endif
