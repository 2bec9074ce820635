// SPDX-License-Identifier: Apache-2.0
/*
 * Rows for code that HotSpot has generated. Compiled methods have no frame pointer: the size of their
 * frame is known, and their instructions say where it does not stand, as at their beginning and around
 * each return. All instructions are decoded in their order, and what they do to the stack pointer is
 * followed, as well as forward jumps out of places where the frame does not stand. Pure. Rank 1.
 */
#ifndef PROFLET_ELF_HOTSPOT_ROWS_H
#define PROFLET_ELF_HOTSPOT_ROWS_H

#include <stdint.h>

#include "agent/elf/code/hotspot_kind.h"
#include "agent/elf/code/memory_rows.h"

/*
 * Rows of the `n` bytes of code at `va`, in ascending order. `frame_bytes`: from the caller's stack pointer
 * to this one's; of the interpreter: from a frame record down to the address of the bytecode instruction. 0;
 * -ENOTSUP: not on this architecture; -EFBIG; -ENOMEM.
 */
int hotspot_rows_make(struct memory_rows *ret, const struct memory_code *code, enum hotspot_code_kind kind,
		      uint32_t frame_bytes);

#endif
