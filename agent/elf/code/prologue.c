// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/code/prologue.h"

#include <stdbool.h>

#include "agent/elf/code/x86.h"

/* Whether what follows is run, and pushes are where they are counted to be. */
static bool goes_on(const struct x86_insn *insn, uint8_t reg)
{
	switch (insn->op) {
	case X86_PUSH:
	case X86_NOP:
	case X86_STORE:
	case X86_COMPARE:
		return true;
	case X86_OTHER:
		return !(insn->writes & (1u << reg | 1u << X86_SP));
	case X86_ADD:
	case X86_AND:
	case X86_MOVE:
	case X86_LEA:
	case X86_LOAD:
	case X86_ADDRESS:
	case X86_CONSTANT:
	case X86_TABLE_ENTRY:
		return insn->reg != reg && insn->reg != X86_SP;
	default:
		return false;
	}
}

int32_t prologue_saves(const uint8_t *code, size_t n, uint8_t reg)
{
	int32_t off = -8; /* the return address */
	size_t at = 0;

	while (at < n) {
		const struct x86_insn insn = x86_decode(code + at, n - at);

		if (!insn.len || !goes_on(&insn, reg))
			return 0;
		if (insn.op == X86_PUSH) {
			off -= 8;
			if (insn.reg == reg)
				return off;
		}
		at += insn.len;
	}
	return 0;
}
