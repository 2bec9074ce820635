// SPDX-License-Identifier: Apache-2.0
/*
 * Rows for HotSpot's interpreter. Where it is in a method, there is a frame record. Where it enters one, the
 * record is still another frame's: there, the instructions say where the return address is. Pure. Rank 1,
 * private to elf/.
 */
#ifndef PROFLET_ELF_HOTSPOT_ENTRIES_H
#define PROFLET_ELF_HOTSPOT_ENTRIES_H

#include <stddef.h>
#include <stdint.h>

#include "agent/elf/code/memory_code.h"

#define HOTSPOT_ENTRIES_MAX 64u

/* Code by which methods of one kind are entered: [start, end), offsets in the interpreter's code. */
struct hotspot_entry {
	uint32_t start, end;
};

/*
 * The entries are in ascending order and do not overlap. `slot_bytes`: from a frame record down to the
 * address of the bytecode instruction. On other architectures than x86-64, entries are not looked at. 0;
 * -ENOMEM.
 */
int hotspot_interpreter_rows(struct memory_rows *ret, const struct memory_code *code, uint32_t slot_bytes,
			     const struct hotspot_entry *entries, size_t n);

#endif
