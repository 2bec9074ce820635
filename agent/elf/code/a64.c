// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/code/a64.h"

#define BITS(word, at, n) ((word) >> (at) & ((1u << (n)) - 1))

static int32_t sign_extend(uint32_t value, unsigned bits)
{
	return (int32_t)(value << (32 - bits)) >> (32 - bits);
}

/* The bit of a register that is written where 31 is the zero register. */
static uint32_t written(uint32_t reg)
{
	return reg < A64_SP ? 1u << reg : 0;
}

/* stp, ldp and the like: opc 101 V index L imm7 Rt2 Rn Rt */
static struct a64_insn decode_pair(uint32_t word)
{
	const uint32_t opc = BITS(word, 30, 2), index = BITS(word, 23, 2);
	const bool vector = BITS(word, 26, 1), load = BITS(word, 22, 1), general = !vector && opc == 2;
	const unsigned scale = vector ? 2 + opc : opc == 2 ? 3 : 2;
	const int32_t disp = sign_extend(BITS(word, 15, 7), 7) * (1 << scale);
	struct a64_insn i = {.reg = A64_NONE, .reg2 = A64_NONE, .base = (uint8_t)BITS(word, 5, 5)};

	i.op = load ? A64_LOAD : A64_STORE;
	i.pre = index != 1;
	i.disp = index == 2 ? disp : 0;
	i.writeback = index == 1 || index == 3 ? disp : 0;
	if (general) {
		i.reg = (uint8_t)BITS(word, 0, 5);
		i.reg2 = (uint8_t)BITS(word, 10, 5);
	}
	if (load && !vector)
		i.writes = written(BITS(word, 0, 5)) | written(BITS(word, 10, 5));
	return i;
}

/* ldr, str and the like, with an immediate. `disp` is not scaled yet for those with an unsigned offset. */
static struct a64_insn decode_word(uint32_t word)
{
	const uint32_t size = BITS(word, 30, 2), opc = BITS(word, 22, 2), index = BITS(word, 10, 2);
	const bool vector = BITS(word, 26, 1), is_unsigned = BITS(word, 24, 1), load = opc != 0;
	const bool general = !vector && size == 3 && opc < 2;
	const int32_t near = sign_extend(BITS(word, 12, 9), 9);
	struct a64_insn i = {.reg = A64_NONE, .reg2 = A64_NONE, .base = (uint8_t)BITS(word, 5, 5)};

	i.op = load ? A64_LOAD : A64_STORE;
	i.pre = true;
	if (general)
		i.reg = (uint8_t)BITS(word, 0, 5);
	if (load && !vector && !(size == 3 && opc == 2)) /* prfm writes nothing */
		i.writes = written(BITS(word, 0, 5));
	if (is_unsigned) {
		i.disp = (int32_t)(BITS(word, 10, 12) << size);
	} else if (BITS(word, 21, 1)) { /* a register as offset, or an atomic operation */
		i.op = A64_OTHER;
		i.writes = vector ? 0 : written(BITS(word, 0, 5));
	} else if (index == 1 || index == 3) {
		i.writeback = near;
		i.pre = index == 3;
	} else {
		i.disp = near;
	}
	return i;
}

/* Loads and stores that are neither of the above: exclusive, ordered, of literals, of structures. */
static struct a64_insn decode_other_access(uint32_t word)
{
	const bool vector = BITS(word, 26, 1);
	struct a64_insn i = {.reg = A64_NONE, .reg2 = A64_NONE, .base = A64_NONE};

	if (!vector)
		i.writes =
			written(BITS(word, 0, 5)) | written(BITS(word, 16, 5)) | written(BITS(word, 10, 5));
	else if (BITS(word, 23, 1)) /* structures with writeback, which is by a register or a size */
		i.writes = 1u << BITS(word, 5, 5);
	return i;
}

/* add, sub of an immediate: sf op S 100010 sh imm12 Rn Rd */
static struct a64_insn decode_add(uint32_t word)
{
	const int32_t imm = (int32_t)(BITS(word, 10, 12) << (BITS(word, 22, 1) ? 12 : 0));
	const uint32_t reg = BITS(word, 0, 5);
	const bool flags = BITS(word, 29, 1), wide = BITS(word, 31, 1);
	struct a64_insn i = {.reg = (uint8_t)reg, .reg2 = A64_NONE, .base = (uint8_t)BITS(word, 5, 5)};

	i.op = wide && !flags ? A64_ADD : A64_OTHER;
	i.disp = BITS(word, 30, 1) ? -imm : imm;
	i.writes = flags ? written(reg) : 1u << reg;
	return i;
}

/* movz, movk, as far as they make numbers below 2^31 */
static struct a64_insn decode_constant(uint32_t word)
{
	const uint32_t at = BITS(word, 21, 2) * 16, value = BITS(word, 5, 16);
	struct a64_insn i = {.reg = (uint8_t)BITS(word, 0, 5), .reg2 = A64_NONE, .base = A64_NONE};

	i.writes = written(i.reg);
	if (at > 16 || value << at > INT32_MAX)
		return i;
	if (BITS(word, 29, 2) == 2)
		i.op = A64_CONSTANT;
	else if (BITS(word, 29, 2) == 3 && at == 16)
		i.op = A64_INSERT;
	i.disp = (int32_t)(value << at);
	return i;
}

static struct a64_insn decode_immediate(uint32_t word)
{
	struct a64_insn i = {.reg = A64_NONE, .reg2 = A64_NONE, .base = A64_NONE};

	if (BITS(word, 23, 6) == 0x22)
		return decode_add(word);
	if (BITS(word, 23, 6) == 0x25)
		return decode_constant(word);
	/* and, orr, eor of an immediate may write the stack pointer */
	if (BITS(word, 23, 6) == 0x24 && BITS(word, 29, 2) != 3)
		i.writes = 1u << BITS(word, 0, 5);
	else
		i.writes = written(BITS(word, 0, 5));
	return i;
}

static struct a64_insn decode_register(uint32_t word)
{
	struct a64_insn i = {.reg = A64_NONE, .reg2 = A64_NONE, .base = A64_NONE};

	if ((word & 0xbfe0fc00) == 0x8b206000) { /* with sp, of 64 bits, not shifted */
		i.op = A64_ADD_REG;
		i.reg = (uint8_t)BITS(word, 0, 5);
		i.base = (uint8_t)BITS(word, 5, 5);
		i.reg2 = (uint8_t)BITS(word, 16, 5);
		i.disp = BITS(word, 30, 1) ? -1 : 1;
	}
	/* add and sub of an extended register may write the stack pointer */
	if ((word & 0x1fe00000) == 0x0b200000 && !BITS(word, 29, 1))
		i.writes = 1u << BITS(word, 0, 5);
	else if ((word & 0x3fe00410) != 0x3a400000) /* ccmp, ccmn have flags there */
		i.writes = written(BITS(word, 0, 5));
	return i;
}

/* Floating point and vectors: general registers are written by conversions and moves. */
static struct a64_insn decode_vector(uint32_t word)
{
	struct a64_insn i = {.reg = A64_NONE, .reg2 = A64_NONE, .base = A64_NONE};

	/* fcvt, fmov; umov; smov */
	if ((word & 0x5f20fc00) == 0x1e200000 || (word & 0xbfe0fc00) == 0x0e003c00 ||
	    (word & 0xbfe0fc00) == 0x0e002c00)
		i.writes = written(BITS(word, 0, 5));
	return i;
}

static struct a64_insn decode_hint(uint32_t word)
{
	struct a64_insn i = {.op = A64_NOP, .reg = A64_NONE, .reg2 = A64_NONE, .base = A64_NONE};

	switch (BITS(word, 5, 7)) {
	case 25: /* paciasp */
	case 27: /* pacibsp */
	case 34: /* bti c */
		i.op = A64_ENTRY;
		break;
	case 0: /* nop */
		break;
	default:
		i.op = A64_OTHER;
	}
	return i;
}

static struct a64_insn decode_branch(uint32_t word)
{
	struct a64_insn i = {.reg = A64_NONE, .reg2 = A64_NONE, .base = A64_NONE};

	if ((word & 0x7c000000) == 0x14000000) {
		i.op = word >> 31 ? A64_CALL : A64_JUMP;
		i.disp = sign_extend(BITS(word, 0, 26), 26) * 4;
	} else if ((word & 0xfe000000) == 0x54000000 || (word & 0x7e000000) == 0x34000000) {
		i.op = A64_BRANCH; /* b.cond, cbz, cbnz */
		i.disp = sign_extend(BITS(word, 5, 19), 19) * 4;
	} else if ((word & 0x7e000000) == 0x36000000) {
		i.op = A64_BRANCH; /* tbz, tbnz */
		i.disp = sign_extend(BITS(word, 5, 14), 14) * 4;
	} else if ((word & 0xfe000000) == 0xd6000000) { /* by a register; with authentication, too */
		const uint32_t opc = BITS(word, 21, 4) & 7;

		i.op = opc == 1 ? A64_CALL_REG : opc == 0 ? A64_JUMP_REG : A64_RETURN;
		i.base = (uint8_t)BITS(word, 5, 5);
	} else if ((word & 0xff000000) == 0xd4000000) {
		i.op = (word & 0xffe0001f) == 0xd4000001 ? A64_SYSTEM_CALL : A64_TRAP;
	} else if ((word & 0xfffff01f) == 0xd503201f) {
		return decode_hint(word);
	} else if ((word & 0xfff00000) == 0xd5300000) { /* mrs */
		i.writes = written(BITS(word, 0, 5));
	}
	if (i.op == A64_CALL || i.op == A64_CALL_REG)
		i.writes = 0x7ffffu | 1u << A64_LR; /* x0 to x18 */
	return i;
}

struct a64_insn a64_decode(uint32_t word)
{
	struct a64_insn i = {.reg = A64_NONE, .reg2 = A64_NONE, .base = A64_NONE};

	if (word >> 16 == 0 || word == A64_FILL) {
		i.op = A64_TRAP;
		return i;
	}
	switch (BITS(word, 25, 4)) {
	case 8:
	case 9:
		return decode_immediate(word);
	case 10:
	case 11:
		return decode_branch(word);
	case 5:
	case 13:
		return decode_register(word);
	case 7:
	case 15:
		return decode_vector(word);
	case 4:
	case 6:
	case 12:
	case 14:
		if (BITS(word, 27, 3) == 5 && BITS(word, 30, 2) != 3)
			i = decode_pair(word);
		else if (BITS(word, 27, 3) == 7)
			i = decode_word(word);
		else
			return decode_other_access(word);
		if (i.writeback)
			i.writes |= 1u << i.base;
		return i;
	default: /* reserved, or the scalable vector and matrix extensions, which write general registers seldom */
		i.writes = BITS(word, 25, 4) == 2 ? written(BITS(word, 0, 5)) : 0;
		return i;
	}
}

uint64_t a64_address(struct a64_pages *p, uint32_t word, uint64_t va, const struct a64_insn *insn)
{
	const int64_t pages = sign_extend(BITS(word, 5, 19) << 2 | BITS(word, 29, 2), 21);
	const bool uses = insn->op == A64_ADD || insn->op == A64_LOAD;
	const uint64_t page = uses && insn->base < A64_SP ? p->page[insn->base] : 0;

	for (uint32_t left = insn->writes & ((1u << A64_SP) - 1); left; left &= left - 1)
		p->page[__builtin_ctz(left)] = 0;
	if ((word & 0x9f000000) == 0x90000000) /* adrp */
		p->page[BITS(word, 0, 5)] = (va & ~0xfffull) + (uint64_t)(pages * 4096);
	return page ? page + (uint64_t)(int64_t)insn->disp : 0;
}

bool a64_is_sigreturn(uint32_t first, uint32_t second)
{
	return first == 0xd2801168 && second == 0xd4000001;
}
