// SPDX-License-Identifier: Apache-2.0
/* The effect of an x86-64 instruction on the stack of calls, by its bytes. Pure. */
#ifndef PROFLET_TESTS_SHADOW_INSN_H
#define PROFLET_TESTS_SHADOW_INSN_H

#include <stddef.h>
#include <stdint.h>

#define INSN_BYTES 15 /* the longest instruction */

enum insn_kind {
	INSN_OTHER,
	INSN_CALL, /* near; but not a call of the next instruction, which reads the program counter */
	INSN_RET,  /* near */
	INSN_SYSCALL,
	INSN_JUMP,    /* near, to an address from a register or memory */
	INSN_POP,     /* to a register or memory, not to rsp */
	INSN_LOAD_SP, /* mov, xchg or pop to rsp; but not from rbp, as in epilogues */
};

enum insn_kind insn_kind_of(const uint8_t *code, size_t len);

#endif
