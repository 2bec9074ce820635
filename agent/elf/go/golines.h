// SPDX-License-Identifier: Apache-2.0
/*
 * Where an address of a Go program is in its source: file and line, and the calls that the compiler inlined
 * there. The tables are those that the runtime prints its own stacks from: pcfile, pcln, cutab, filetab, and
 * the inlining trees (Go sources: runtime/symtab.go, symtabinl.go; from Go 1.18 on, before that the function
 * alone). Rank 1, private to elf/.
 */
#ifndef PROFLET_ELF_GOLINES_H
#define PROFLET_ELF_GOLINES_H

#include "agent/base/frame.h"
#include "agent/elf/go/gopclntab.h"

#define GOLINES_DEPTH_MAX 32u /* inlined calls at one address; Go's compiler has a budget for much less */

struct golines {
	const struct gopclntab *table; /* borrowed; its text is known */
	uint64_t trees; /* address that the offsets of inlining trees count from; 0: not known */
};

/* Finds the inlining trees. `table` is borrowed until the last use. 0 or -ENOMEM. */
int golines_open(struct golines *ret, const struct gopclntab *table);
/*
 * The calls at `addr`, innermost first, the last is function `i` of the table itself. One block with its
 * strings: free(). They hold for [*start, *end). 0; -ENOENT: the table has no lines there; -ENOMEM.
 */
int golines_find(const struct golines *g, uint64_t i, uint64_t addr, struct frame_line **ret, size_t *ret_n,
		 uint64_t *start, uint64_t *end);

#endif
