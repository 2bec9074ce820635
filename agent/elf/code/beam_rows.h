// SPDX-License-Identifier: Apache-2.0
/*
 * Rows for code that BEAM's JIT has made. Erlang runs on the stack of its own process: rsp is that stack's
 * pointer, and rbp is free, or, with frame records (erts_frame_layout is 1), the address of the last one. For
 * what is written in C, the code goes over to the stack of its thread. Before that it keeps rsp in rbp, which
 * the C code preserves; or it keeps it in the process's structure, whose address is in r13 (CFA_KEPT): the C
 * code that is called saves that register. OTP 25 to 29, x86-64: erts/emulator/beam/jit/x86. Rank 1.
 */
#ifndef PROFLET_ELF_BEAM_ROWS_H
#define PROFLET_ELF_BEAM_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/elf/code/memory_rows.h"

enum beam_code {
	BEAM_FUNCTION, /* its code begins `info` bytes behind the first byte */
	BEAM_SHARED,   /* pieces that functions call or jump to, one behind the other; rows begin at `info` */
	BEAM_EXIT,     /* what the outermost function of a process returns to */
};

/* Looks at the C functions that the code calls. */
struct beam_callees {
	/*
	 * Where the function at an address of the process has pushed r13 to: bytes from its CFA, less than 0;
	 * 0: not known. `pointer`: at `address` there is the address.
	 */
	int32_t (*saved)(void *data, uint64_t address, bool pointer);
	void *data;
};

/*
 * Rows of the code, with CFA_KEPT only as the innermost frame where `callees` is NULL; where frames cannot be
 * found out, CFA_NONE with NO_RULE_REFUSED. 0; -ENOTSUP: not on this architecture; -EFBIG; -ENOMEM.
 */
int beam_rows_make(struct memory_rows *ret, const struct memory_code *code, enum beam_code kind,
		   uint32_t info, const struct beam_callees *callees);

#endif
