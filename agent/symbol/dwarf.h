// SPDX-License-Identifier: Apache-2.0
/*
 * Source lines and inlined calls out of a file's debug information (DWARF 5, sections 3.3.8 and 6.2), for
 * recordings that ask for them. libdw (elfutils) reads it; it is loaded when it is first wanted, since the
 * agent of a node does without. Rank 2.
 */
#ifndef PROFLET_SYMBOL_DWARF_H
#define PROFLET_SYMBOL_DWARF_H

#include <stddef.h>
#include <stdint.h>

struct elf_symbol;

/* Loads libdw, once. 0, or -ENOENT: this system has none. Any thread. */
int symbol_dwarf_load(void);

/*
 * For each of the n addresses, in ascending order, that has a name and no lines: its lines, as far as the
 * file (`fd`, which may have O_PATH, whose addresses are `delta` less) has debug information. Its range then
 * is the address alone. Stops after a few seconds of CPU time: what is left keeps its name. Returns how many
 * were left so, or -errno: -ENODATA when there is no debug information.
 * The file should be of somebody whom one trusts: libdw is not made for hostile files.
 */
int symbol_dwarf_lines(int fd, uint64_t delta, const uint64_t *addrs, size_t n, struct elf_symbol *symbols);

#endif
