// SPDX-License-Identifier: Apache-2.0
/*
 * Where the frame stands in code of HotSpot that is read from its first to its last instruction, and which
 * jumps have brought what to instructions that are still ahead. Rank 1, private to elf/.
 */
#ifndef PROFLET_ELF_HOTSPOT_TARGETS_H
#define PROFLET_ELF_HOTSPOT_TARGETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HOTSPOT_TARGETS_MAX 256u

/* How the caller's frame is found. Each architecture says which values mean that it is not known. */
struct hotspot_frame {
	int32_t depth; /* bytes from the stack pointer to the CFA */
	int32_t saved; /* where the caller's frame pointer is; 0: in its register */
	bool record;   /* the frame pointer points to it */
	/*
	 * x86-64: where an earlier stack pointer is kept, from which the CFA was `kept` bytes away: in a
	 * register, or on the stack, `slot` bytes from the stack pointer.
	 */
	bool in_register, on_stack;
	uint8_t keeper; /* enum x86_reg */
	int32_t kept, slot;
};

struct hotspot_target {
	uint32_t off;
	struct hotspot_frame frame;
};

struct hotspot_targets {
	size_t n;
	struct hotspot_target v[HOTSPOT_TARGETS_MAX];
};

bool hotspot_frame_same(const struct hotspot_frame *a, const struct hotspot_frame *b);
/* Notes what a jump brings to `off`. Beyond HOTSPOT_TARGETS_MAX, it is not noted. */
void hotspot_targets_note(struct hotspot_targets *t, uint32_t off, const struct hotspot_frame *frame);
/* Takes what a jump has brought to `off`. False: none did. Forgets targets that are passed. */
bool hotspot_targets_take(struct hotspot_targets *t, uint32_t off, struct hotspot_frame *ret);

#endif
