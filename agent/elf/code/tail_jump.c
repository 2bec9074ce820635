// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/code/tail_jump.h"

#include "agent/elf/code/x86.h"

/* What an instruction before a jump through the register `reg` says of it. */
enum jump_sign {
	SIGN_NONE,
	SIGN_FRAME,  /* the frame is given up: the frame pointer is the caller's again */
	SIGN_OBJECT, /* the register was read from an object: a switch, or an interpreter, reads a table */
	SIGN_OTHER,  /* the register has another value, or the jump is to another stack */
	SIGN_START   /* what is behind it does not run after it */
};

/*
 * Whether it reads from a table that V8 has of its functions: from a base and a number of bytes, as from a
 * table of structures; or from one of addresses far inside a structure (until V8 11). Tables of jumps have
 * entries of four or eight bytes, and are by themselves.
 */
static bool reads_structure(const uint8_t *code, const struct x86_insn *insn)
{
	const bool indexed = insn->len >= 4 && (code[0] & 0xf8) == 0x48 && code[1] == 0x8b &&
			     code[2] >> 6 != 3 && (code[2] & 7) == 4 &&
			     ((code[3] >> 3 & 7) != 4 || code[0] & 2);

	return indexed && (code[3] >> 6 == 0 || (code[3] >> 6 == 3 && code[2] >> 6 == 2));
}

static enum jump_sign sign_of(const uint8_t *code, const struct x86_insn *insn, uint8_t reg)
{
	const bool loads = insn->op == X86_LOAD;

	if (insn->op == X86_LEAVE || (insn->op == X86_POP && insn->reg == X86_BP) ||
	    (loads && insn->reg == X86_BP && insn->base == X86_BP && insn->disp == 0))
		return SIGN_FRAME;
	if (insn->op == X86_RETURN || insn->op == X86_JUMP || insn->op == X86_TRAP ||
	    insn->op == X86_JUMP_FAR_AWAY)
		return SIGN_START;
	if (loads && insn->reg == X86_SP)
		return SIGN_OTHER;
	if (loads && insn->reg == reg && insn->base < X86_REGS && insn->base != X86_SP &&
	    insn->base != X86_BP && insn->disp != 0)
		return SIGN_OBJECT;
	if (reg >= X86_REGS || !(insn->writes >> reg & 1))
		return SIGN_NONE;
	return reads_structure(code, insn) ? SIGN_OBJECT : SIGN_OTHER;
}

bool tail_jump_seems(const uint8_t *code, uint32_t n, uint32_t off, const uint32_t *before, size_t n_before)
{
	const struct x86_insn insn = x86_decode(code + off, n - off);
	const uint8_t *end = code + off + insn.len;
	enum jump_sign sign = SIGN_NONE;
	bool from_object = false;
	uint8_t reg;

	if (insn.op != X86_JUMP_FAR_AWAY || insn.len < 2 || end[-2] != 0xff || end[-1] >> 6 != 3)
		return false;
	reg = (uint8_t)((end[-1] & 7) | (insn.len > 2 && (end[-3] & 0xf1) == 0x41 ? 8 : 0));
	for (size_t i = 0; i < n_before && sign != SIGN_START; i++) {
		const struct x86_insn one = x86_decode(code + before[i], n - before[i]);

		if (!from_object && one.reg == reg && (one.op == X86_MOVE || one.op == X86_ADD)) {
			reg = one.op == X86_MOVE ? one.base : reg; /* or behind an object's header */
			continue;
		}
		sign = sign_of(code + before[i], &one, from_object ? X86_NO_REG : reg);
		from_object |= sign == SIGN_OBJECT;
		if (sign == SIGN_FRAME || sign == SIGN_OTHER)
			return sign == SIGN_FRAME;
	}
	return from_object;
}
