// SPDX-License-Identifier: Apache-2.0
/*
 * Line tables of CPython's code objects, as Objects/lnotab_notes.txt and Objects/locations.md of CPython
 * describe them. Pure. Rank 3; may include agent/elf.
 */
#ifndef PROFLET_RUNTIME_CPYTHON_LINES_H
#define PROFLET_RUNTIME_CPYTHON_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/elf/runtime/cpython.h"

struct cpython_lines_table {
	const uint8_t *bytes; /* borrowed; any content; NULL if len is 0 */
	size_t len;
	bool cut; /* the whole table is longer */
	enum cpython_lines format;
	uint32_t first_line; /* of the function; signed for CPython */
};

/*
 * The line of the instruction that begins `offset` bytes after the function's first one. 0: the table says
 * that there is none, or it was cut before this instruction. Takes time linear in the length of the table.
 */
uint32_t cpython_line(const struct cpython_lines_table *t, uint32_t offset);

#endif
