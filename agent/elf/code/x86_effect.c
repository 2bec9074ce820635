// SPDX-License-Identifier: Apache-2.0
/*
 * What an opcode writes is taken too wide rather than too narrow: a register that is said to change costs a
 * row, one that changes unseen makes a row wrong.
 */
#include "agent/elf/code/x86.h"
#include "agent/elf/code/x86_internal.h"

#define BIT(n) ((uint16_t)(1u << (n)))

static uint16_t rm_register(const struct x86_decoder *d)
{
	/* without REX, byte registers 4 to 7 are ah to bh: taken as both */
	return d->mod == 3 ? (uint16_t)(BIT(d->rm) | (d->rm >= 4 && d->rm < 8 && !d->rex &&
								      d->map == MAP_ONE && !(d->opcode & 1)
							      ? BIT(d->rm - 4)
							      : 0))
			   : 0;
}

static uint16_t reg_register(const struct x86_decoder *d)
{
	return (uint16_t)(BIT(d->reg) |
			  (d->reg >= 4 && d->reg < 8 && !d->rex && d->map == MAP_ONE && !(d->opcode & 1)
				   ? BIT(d->reg - 4)
				   : 0));
}

static uint16_t one_writes(const struct x86_decoder *d)
{
	const uint16_t rm = d->has_modrm ? rm_register(d) : 0, reg = d->has_modrm ? reg_register(d) : 0;
	uint8_t c = d->opcode;

	if (c < 0x40) {
		if (c >= 0x38)
			return 0; /* cmp */
		return (c & 7) < 2 ? rm : (c & 7) < 4 ? reg : BIT(X86_AX);
	}
	if (c == 0x63 || c == 0x69 || c == 0x6b || c == 0x8a || c == 0x8b || c == 0x8d)
		return reg;
	if (c == 0x80 || c == 0x81 || c == 0x83)
		return (d->reg & 7) == 7 ? 0 : rm;
	if (c == 0x86 || c == 0x87)
		return rm | reg;
	if (c == 0x88 || c == 0x89 || c == 0x8c || c == 0x8f || c == 0xc0 || c == 0xc1 || c == 0xc6 ||
	    c == 0xc7 || (c >= 0xd0 && c <= 0xd3))
		return rm;
	if (c >= 0x90 && c <= 0x97)
		return (uint16_t)(BIT((c & 7) | (d->rex & 1) << 3) | BIT(X86_AX));
	if (c == 0x98 || c == 0x99)
		return BIT(X86_AX) | BIT(X86_DX);
	if ((c >= 0xa4 && c <= 0xa7) || (c >= 0xaa && c <= 0xaf))
		return BIT(X86_AX) | BIT(X86_CX) | BIT(X86_SI) | BIT(X86_DI);
	if (c >= 0xb0 && c <= 0xbf)
		return (uint16_t)(BIT((c & 7) | (d->rex & 1) << 3) | (c < 0xb8 && !d->rex ? BIT(c & 3) : 0));
	if (c == 0xf6 || c == 0xf7)
		return (d->reg & 7) < 2 ? 0 : (d->reg & 7) < 4 ? rm : BIT(X86_AX) | BIT(X86_DX);
	if (c == 0xfe || c == 0xff)
		return (d->reg & 7) < 2 ? rm : 0;
	if (c == 0xdf || (c >= 0xe0 && c <= 0xe3) || c == 0x9f || c == 0xd7)
		return BIT(X86_AX) | BIT(X86_CX);
	return 0;
}

static uint16_t two_writes(const struct x86_decoder *d)
{
	const uint16_t rm = d->has_modrm && d->mod == 3 ? BIT(d->rm) : 0, reg = BIT(d->reg);
	uint8_t c = d->opcode;

	if (c == 0x50 || c == 0xd7 || c == 0xc5 || c == 0x2c || c == 0x2d || (d->vector && c == 0x93) ||
	    ((c == 0x78 || c == 0x79) && d->vector))
		return reg;
	if (c == 0x7e)
		return d->rep ? 0 : rm;
	if (d->vector)
		return 0;
	if ((c & 0xf0) == 0x40 || c == 0xaf || c == 0xb6 || c == 0xb7 || c == 0xbe || c == 0xbf ||
	    c == 0xbc || c == 0xbd || c == 0xb8 || c == 0x02 || c == 0x03)
		return reg;
	if ((c & 0xf0) == 0x90 || c == 0xa4 || c == 0xa5 || c == 0xac || c == 0xad || c == 0xab ||
	    c == 0xb3 || c == 0xbb)
		return rm;
	if (c == 0xba)
		return (d->reg & 7) == 4 ? 0 : rm;
	if (c == 0xb0 || c == 0xb1)
		return rm | BIT(X86_AX);
	if (c == 0xc0 || c == 0xc1)
		return rm | reg;
	if (c == 0xc7) /* cmpxchg16b, rdrand */
		return rm | BIT(X86_AX) | BIT(X86_DX);
	if ((c & 0xf8) == 0xc8)
		return BIT((c & 7) | (d->rex & 1) << 3);
	if (c == 0xa2 || c == 0x31 || c == 0x01 || c == 0x05)
		return BIT(X86_AX) | BIT(X86_BX) | BIT(X86_CX) | BIT(X86_DX) | BIT(11);
	return 0;
}

static uint16_t writes(const struct x86_decoder *d)
{
	const uint16_t rm = d->has_modrm && d->mod == 3 ? BIT(d->rm) : 0, reg = BIT(d->reg);
	uint8_t c = d->opcode;

	switch (d->map) {
	case MAP_ONE:
		return one_writes(d);
	case MAP_0F:
		return two_writes(d);
	case MAP_0F38:
		if (d->vector && c >= 0xf2 && c <= 0xf7) /* BMI: also the register of the prefix */
			return reg | BIT(d->vvvv);
		return c == 0xf0 || c == 0xf1 || c == 0xf6 ? reg : 0;
	case MAP_0F3A:
		return (c >= 0x14 && c <= 0x17) ? rm
		       : c == 0xf0		? reg
		       : c >= 0x60 && c <= 0x63 ? BIT(X86_CX)
						: 0;
	case MAP_XOP9:
	case MAP_XOPA:
		return reg | BIT(d->vvvv);
	default:
		return 0;
	}
}

static void meaning_group5(const struct x86_decoder *d, struct x86_insn *i)
{
	switch (d->reg & 7) {
	case 2:
		i->op = X86_CALL_FAR_AWAY;
		break;
	case 4:
		i->op = X86_JUMP_FAR_AWAY;
		break;
	case 6:
		i->op = X86_PUSH;
		i->reg = X86_NO_REG;
		break;
	case 3:
	case 5:
	case 7:
		i->len = 0;
		break;
	default:
		break;
	}
}

/* 64-bit moves and sums; a memory operand without index, by a register. */
static void meaning_data(const struct x86_decoder *d, struct x86_insn *i)
{
	const bool wide = d->rex & 8,
		   simple = d->mod != 3 && !d->index && !d->rip && d->base != X86_NO_REG && !d->address32;
	uint8_t c = d->opcode;

	if (!wide)
		return;
	if ((c == 0x81 || c == 0x83) && d->mod == 3) {
		int64_t value = c == 0x83 ? (int8_t)d->imm : (int32_t)d->imm;
		uint8_t which = d->reg & 7;

		if ((which != 0 && which != 5 && which != 4) || value == INT32_MIN)
			return;
		i->op = which == 4 ? X86_AND : X86_ADD;
		i->reg = d->rm;
		i->disp = (int32_t)(which == 5 ? -value : value);
	} else if (c == 0x89 || c == 0x8b) {
		i->reg = c == 0x8b || d->mod != 3 ? d->reg : d->rm;
		i->base = d->mod != 3 ? d->base : c == 0x8b ? d->rm : d->reg;
		i->disp = d->disp;
		if (d->mod == 3)
			i->op = X86_MOVE;
		else if (simple)
			i->op = c == 0x8b ? X86_LOAD : X86_STORE;
	} else if (c == 0x8d && simple) {
		i->op = X86_LEA;
		i->reg = d->reg;
		i->base = d->base;
		i->disp = d->disp;
	}
}

static void meaning_one(const struct x86_decoder *d, struct x86_insn *i)
{
	uint8_t c = d->opcode, low = (uint8_t)((c & 7) | (d->rex & 1) << 3);

	if ((c & 0xf0) == 0x50) {
		i->op = c < 0x58 ? X86_PUSH : X86_POP;
		i->reg = low;
		i->writes = c < 0x58 ? 0 : BIT(low);
		if (d->operand16)
			i->len = 0;
	} else if (c == 0x68 || c == 0x6a || c == 0x9c) {
		i->op = X86_PUSH;
		i->reg = X86_NO_REG;
	} else if (c == 0x9d || c == 0x8f) {
		i->op = X86_POP;
		i->reg = c == 0x8f && d->mod == 3 ? d->rm : X86_NO_REG;
	} else if ((c & 0xf0) == 0x70 || (c >= 0xe0 && c <= 0xe3)) {
		i->op = X86_BRANCH;
		i->disp = (int8_t)d->imm;
	} else if (c == 0xeb || c == 0xe9 || c == 0xe8) {
		i->op = c == 0xe8 ? X86_CALL : X86_JUMP;
		i->disp = c == 0xeb ? (int8_t)d->imm : (int32_t)d->imm;
	} else if (c == 0xc3 || c == 0xc2) {
		i->op = X86_RETURN;
	} else if (c == 0xc9) {
		i->op = X86_LEAVE;
	} else if (c == 0xcc || c == 0xf4) {
		i->op = X86_TRAP;
	} else if (c == 0x90 && !(d->rex & 1)) {
		i->op = X86_NOP;
		i->writes = 0;
	} else if (c == 0xff) {
		meaning_group5(d, i);
	} else {
		meaning_data(d, i);
	}
}

static void meaning(const struct x86_decoder *d, struct x86_insn *i)
{
	uint8_t c = d->opcode;

	if (d->map == MAP_ONE) {
		meaning_one(d, i);
	} else if (d->map == MAP_0F && !d->vector) {
		if ((c & 0xf0) == 0x80) {
			i->op = X86_BRANCH;
			i->disp = (int32_t)d->imm;
		} else if (c == 0x0b || c == 0xb9) {
			i->op = X86_TRAP;
		} else if (c == 0x05) {
			i->op = X86_CALL_FAR_AWAY;
		} else if ((c == 0x1e || c == 0x1f) && !d->rep) { /* with it, endbr64: no padding */
			i->op = X86_NOP;
		}
	}
}

void x86_effect(const struct x86_decoder *d, struct x86_insn *i)
{
	i->writes = writes(d);
	meaning(d, i);
}
