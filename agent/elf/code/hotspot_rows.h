// SPDX-License-Identifier: Apache-2.0
/*
 * Rows for code that HotSpot has generated. Compiled methods have no frame pointer: the size of their
 * frame is known, and their instructions say where it does not stand, as at their beginning and around
 * each return. All instructions are decoded in their order, and what they do to the stack pointer is
 * followed, as well as forward jumps out of places where the frame does not stand. x86-64 only. Pure. Rank
 * 1.
 */
#ifndef PROFLET_ELF_HOTSPOT_ROWS_H
#define PROFLET_ELF_HOTSPOT_ROWS_H

#include <stdint.h>

#include "agent/elf/code/memory_rows.h"

/* Append-only: a parser process sends them. */
enum hotspot_code_kind {
	HOTSPOT_CODE_METHOD,	  /* a compiled method: a frame of known size, without frame pointer */
	HOTSPOT_CODE_NATIVE,	  /* what calls a native method: the same, and rbp may be a frame pointer */
	HOTSPOT_CODE_STUB,	  /* a stub of the virtual machine with a frame of known size */
	HOTSPOT_CODE_STUBS,	  /* any number of functions */
	HOTSPOT_CODE_FRAMELESS,	  /* the return address is always at rsp */
	HOTSPOT_CODE_CALLS,	  /* where its frame is of known size, it calls; else nothing is known */
	HOTSPOT_CODE_INTERPRETER, /* frames of interpreted methods (CFA_INTERPRETED) */
	HOTSPOT_CODE_KINDS,
};

/*
 * Rows of the `n` bytes of code at `va`, in ascending order. `frame_bytes`: from the caller's stack pointer
 * to this one's; of the interpreter: from a frame record down to the address of the bytecode instruction. 0;
 * -ENOTSUP: not on this architecture; -EFBIG; -ENOMEM.
 */
int hotspot_rows_make(struct memory_rows *ret, const struct memory_code *code, enum hotspot_code_kind kind,
		      uint32_t frame_bytes);

#endif
