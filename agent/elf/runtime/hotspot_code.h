// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the piece of code (CodeBlob) at an address in the code heaps of a HotSpot: a compiled method, the
 * interpreter, a stub. A heap is cut into segments of equal size, and its segment map has a byte for each:
 * how many segments to go back towards the beginning of its block, 0 at the beginning, 0xff where nothing
 * is. Pure but for the memory that it is given. Rank 1.
 */
#ifndef PROFLET_ELF_HOTSPOT_CODE_H
#define PROFLET_ELF_HOTSPOT_CODE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/elf/code/hotspot_entries.h"
#include "agent/elf/code/hotspot_rows.h"
#include "agent/elf/runtime/vm_memory.h"

struct code_heaps;
struct hotspot_layout;

struct hotspot_blob {
	uint64_t address;    /* of the CodeBlob */
	uint64_t start, end; /* of its code */
	uint64_t method;     /* of a compiled method: the Method; else 0 */
	enum hotspot_code_kind kind;
	uint32_t frame_bytes;	/* from the caller's stack pointer down; 0: it has no frame of a fixed size */
	uint32_t compile_id;	/* of a compiled method: no other compilation has it */
	uint64_t name_at;	/* process address of the name: all compiled methods have the same one */
	char name[VM_TEXT_MAX]; /* of a stub */
};

/*
 * 0; -ENOENT: the address is in no heap; -ENODATA: it is, and there is no code now; -EAGAIN: there are
 * no heaps yet, or the method is not complete yet; -ENOTSUP: the heaps are not as they should be;
 * errors of vm_read.
 */
int hotspot_blob_find(struct vm_memory *m, const struct hotspot_layout *l, uint64_t address,
		      struct hotspot_blob *ret);
/*
 * What the BPF program needs to know of the heaps, which stay where they are; the names are left 0. 0;
 * -EAGAIN as above; -ENOTSUP: they are not as they should be; errors of vm_read.
 */
int hotspot_heaps_read(struct code_heaps *ret, struct vm_memory *m, const struct hotspot_layout *l);
/*
 * The code of the interpreter by which methods are entered, in ascending order. Returns their number, `max`
 * at most; 0: none, or they are not known.
 */
size_t hotspot_entries_read(struct vm_memory *m, const struct hotspot_layout *l, const struct hotspot_blob *b,
			    struct hotspot_entry *ret, size_t max);
/* Whether there is no code anywhere in [start, end) of a heap, MEMORY_CODE_MAX bytes at most. */
bool hotspot_is_empty(struct vm_memory *m, const struct hotspot_layout *l, uint64_t start, uint64_t end);

#endif
