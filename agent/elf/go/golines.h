// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the source position of an address in a Go program: file and line, the calls that the compiler inlined
 * there, and where each function begins. Reads the tables from which the runtime prints its own stacks:
 * pcfile, pcln, cutab, filetab, and the inlining trees (Go sources: runtime/symtab.go, symtabinl.go). Inlined
 * calls are found from Go 1.18 on, the first lines of functions from Go 1.20 on. Rank 1, private to elf/.
 */
#ifndef PROFLET_ELF_GOLINES_H
#define PROFLET_ELF_GOLINES_H

#include "agent/base/frame.h"
#include "agent/elf/go/gopclntab.h"

#define GOLINES_DEPTH_MAX 32u /* inlined calls at one address; Go's compiler inlines far fewer levels */

struct golines {
	const struct gopclntab *table; /* borrowed; its `text` is set */
	uint64_t trees;		       /* address from which offsets of inlining trees count; 0: unknown */
};

/* Finds the inlining trees. `table` is borrowed as long as *ret is used. 0 or -ENOMEM. */
int golines_open(struct golines *ret, const struct gopclntab *table);
/*
 * Returns the calls at `addr`, innermost first; the last one is function `i` of the table itself. The result
 * is one block, including its strings: free(). It applies to addresses in [*start, *end). 0; -ENOENT: the
 * table has no lines there; -ENOMEM.
 */
int golines_find(const struct golines *g, uint64_t i, uint64_t addr, struct frame_line **ret, size_t *ret_n,
		 uint64_t *start, uint64_t *end);

#endif
