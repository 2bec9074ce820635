// SPDX-License-Identifier: Apache-2.0
/*
 * Decoding has two steps. The first splits an instruction into prefixes, map, opcode, ModRM, displacement and
 * immediate. The second derives the effect from them. Where the registers that an opcode writes are not
 * exactly known, too many are assumed: an extra one costs a row, a missing one makes a row wrong.
 */
#include "agent/elf/code/x86.h"

#include <string.h>

/* Opcode maps: the legacy ones, and those of VEX, EVEX and XOP, which have the same numbers. */
enum x86_map {
	MAP_ONE,
	MAP_0F,
	MAP_0F38,
	MAP_0F3A,
	MAP_EVEX5 = 5,
	MAP_EVEX6,
	MAP_XOP8 = 8,
	MAP_XOP9,
	MAP_XOPA
};

struct x86_decoder {
	const uint8_t *code;
	size_t n, at;
	uint8_t map, opcode, rex; /* rex: bits W R X B as in the REX prefix, also from the longer prefixes */
	bool vector;		  /* the prefix is VEX, EVEX or XOP */
	bool operand16, address32, rep, repne;
	uint8_t vvvv;
	/* from ModRM */
	bool has_modrm, rip, index;
	uint8_t mod, reg, rm, base, index_reg, scale;
	int32_t disp;
	uint64_t imm;
	bool bad;
};

static uint8_t byte(struct x86_decoder *d)
{
	if (d->at >= d->n) {
		d->bad = true;
		return 0;
	}
	return d->code[d->at++];
}

static uint64_t number(struct x86_decoder *d, unsigned bytes)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < bytes; i++)
		v |= (uint64_t)byte(d) << 8 * i;
	return v;
}

static int32_t signed_number(struct x86_decoder *d, unsigned bytes)
{
	uint64_t v = number(d, bytes);

	return bytes == 1 ? (int8_t)v : bytes == 2 ? (int16_t)v : (int32_t)v;
}

/* Parses a VEX prefix of two or three bytes, XOP, or EVEX. False: it is none of them. */
static bool vector_prefix(struct x86_decoder *d, uint8_t first)
{
	uint8_t a, b = 0;

	if (first == 0x8f && (d->at >= d->n || (d->code[d->at] & 0x1f) < MAP_XOP8))
		return false;
	if (first != 0xc4 && first != 0xc5 && first != 0x62 && first != 0x8f)
		return false;
	if (d->operand16 || d->rep || d->repne || d->rex)
		d->bad = true;
	d->vector = true;
	a = byte(d);
	d->rex = (uint8_t)(~a >> 5 & 4); /* R */
	d->map = MAP_0F;
	b = a;
	if (first != 0xc5) {
		d->rex = (uint8_t)(~a >> 5 & 7); /* R X B */
		d->map = first == 0x62 ? a & 7 : a & 0x1f;
		b = byte(d);
		d->rex |= b >> 4 & 8; /* W */
	}
	d->vvvv = (uint8_t)(~b >> 3 & 15);
	d->rep = (b & 3) == 2;
	d->repne = (b & 3) == 3;
	d->operand16 = (b & 3) == 1;
	if (first == 0x62) {
		(void)byte(d);
		d->bad |= (a & 8) != 0 || (b & 4) == 0;
	}
	if (first == 0x8f)
		d->bad |= d->map > MAP_XOPA;
	else if (first == 0x62)
		d->bad |= d->map == 0 || d->map == 4 || d->map == 7;
	else
		d->bad |= d->map == 0 || d->map > MAP_0F3A;
	d->opcode = byte(d);
	return true;
}

static void opcode(struct x86_decoder *d)
{
	uint8_t c, rex = 0;

	for (;; rex = (c & 0xf0) == 0x40 ? c : 0) { /* before another prefix, REX has no effect */
		c = byte(d);
		if (c == 0x66)
			d->operand16 = true;
		else if (c == 0x67)
			d->address32 = true;
		else if (c == 0xf3)
			d->rep = true;
		else if (c == 0xf2)
			d->repne = true;
		else if (c != 0x2e && c != 0x36 && c != 0x3e && c != 0x26 && c != 0x64 && c != 0x65 &&
			 c != 0xf0 && ((c & 0xf0) != 0x40 || d->bad))
			break;
	}
	d->rex = rex;
	if (vector_prefix(d, c))
		return;
	d->map = MAP_ONE;
	if (c == 0x0f) {
		d->map = MAP_0F;
		c = byte(d);
		if (c == 0x38 || c == 0x3a) {
			d->map = c == 0x38 ? MAP_0F38 : MAP_0F3A;
			c = byte(d);
		}
	}
	d->opcode = c;
}

static bool one_has_modrm(uint8_t c)
{
	if (c < 0x40)
		return (c & 7) < 4;
	return c == 0x63 || c == 0x69 || c == 0x6b || (c >= 0x80 && c <= 0x8f) || c == 0xc0 || c == 0xc1 ||
	       c == 0xc6 || c == 0xc7 || (c >= 0xd0 && c <= 0xd3) || (c >= 0xd8 && c <= 0xdf) || c == 0xf6 ||
	       c == 0xf7 || c >= 0xfe;
}

/*
 * Opcodes that are invalid in 64-bit mode, or that do not occur in functions: far calls, interrupts, ports.
 */
static bool one_is_bad(uint8_t c)
{
	static const bool bad[256] = {
		[0x06] = true, [0x07] = true, [0x0e] = true, [0x16] = true, [0x17] = true, [0x1e] = true,
		[0x1f] = true, [0x27] = true, [0x2f] = true, [0x37] = true, [0x3f] = true, [0x60] = true,
		[0x61] = true, [0x62] = true, [0x82] = true, [0x9a] = true, [0xc4] = true, [0xc5] = true,
		[0xc8] = true, [0xca] = true, [0xcb] = true, [0xce] = true, [0xcf] = true, [0xd4] = true,
		[0xd5] = true, [0xd6] = true, [0xea] = true, [0x6c] = true, [0x6d] = true, [0x6e] = true,
		[0x6f] = true, [0xe4] = true, [0xe5] = true, [0xe6] = true, [0xe7] = true, [0xec] = true,
		[0xed] = true, [0xee] = true, [0xef] = true, [0xf1] = true, [0xfa] = true, [0xfb] = true,
		[0xcd] = true,
	};

	return bad[c];
}

static bool two_has_modrm(uint8_t c)
{
	return !(c == 0x05 || c == 0x0b || c == 0x0e || c == 0x31 || c == 0x77 || (c & 0xf0) == 0x80 ||
		 c == 0xa2 || (c >= 0xc8 && c <= 0xcf));
}

static bool two_is_bad(uint8_t c)
{
	return c == 0x04 || (c >= 0x06 && c <= 0x0a) || c == 0x0c || (c >= 0x20 && c <= 0x27) ||
	       (c >= 0x30 && c <= 0x3f && c != 0x31) || c == 0x00 || c == 0x02 || c == 0x03 || c == 0x78 ||
	       c == 0x79 || c == 0x7a || c == 0x7b || (c >= 0xa0 && c <= 0xa1) || c == 0xa6 || c == 0xa7 ||
	       (c >= 0xa8 && c <= 0xaa) || c == 0xff;
}

static void modrm(struct x86_decoder *d)
{
	uint8_t m = byte(d);

	d->has_modrm = true;
	d->mod = m >> 6;
	d->reg = (uint8_t)((m >> 3 & 7) | (d->rex & 4) << 1);
	d->rm = (uint8_t)((m & 7) | (d->rex & 1) << 3);
	d->base = d->rm;
	if (d->mod == 3)
		return;
	if ((m & 7) == 4) {
		uint8_t sib = byte(d);

		d->index_reg = (uint8_t)((sib >> 3 & 7) | (d->rex & 2) << 2);
		d->index = d->index_reg != 4;
		d->scale = (uint8_t)(1u << (sib >> 6));
		d->base = (uint8_t)((sib & 7) | (d->rex & 1) << 3);
		if (d->mod == 0 && (sib & 7) == 5) {
			d->base = X86_NO_REG;
			d->disp = signed_number(d, 4);
		}
	} else if (d->mod == 0 && (m & 7) == 5) {
		d->rip = true;
		d->base = X86_NO_REG;
		d->disp = signed_number(d, 4);
	}
	if (d->mod == 1)
		d->disp = signed_number(d, 1);
	else if (d->mod == 2)
		d->disp = signed_number(d, 4);
}

static unsigned one_immediate(const struct x86_decoder *d)
{
	uint8_t c = d->opcode;
	unsigned z = d->operand16 && !(d->rex & 8) ? 2 : 4;

	if (c < 0x40)
		return (c & 7) == 4 ? 1 : (c & 7) == 5 ? z : 0;
	if (c >= 0xb8 && c <= 0xbf)
		return d->rex & 8 ? 8 : z;
	if (c >= 0xa0 && c <= 0xa3) /* an address, of a global variable of Free Pascal for example */
		return d->address32 ? 4 : 8;
	if (c == 0x68 || c == 0x69 || c == 0x81 || c == 0xa9 || c == 0xc7)
		return z;
	if (c == 0xe8 || c == 0xe9)
		return 4;
	if (c == 0xc2)
		return 2;
	if (c == 0xf6 || c == 0xf7)
		return (d->reg & 7) > 1 ? 0 : c == 0xf6 ? 1 : z;
	return c == 0x6a || c == 0x6b || (c & 0xf0) == 0x70 || c == 0x80 || c == 0x83 || c == 0xa8 ||
	       (c & 0xf8) == 0xb0 || c == 0xc0 || c == 0xc1 || c == 0xc6 || (c >= 0xe0 && c <= 0xe3) ||
	       c == 0xeb;
}

static unsigned immediate_bytes(const struct x86_decoder *d)
{
	uint8_t c = d->opcode;

	switch (d->map) {
	case MAP_ONE:
		return one_immediate(d);
	case MAP_0F:
		if (!d->vector && (c & 0xf0) == 0x80)
			return 4;
		return (c >= 0x70 && c <= 0x73) || c == 0xc2 || (c >= 0xc4 && c <= 0xc6) ||
		       (!d->vector && (c == 0xa4 || c == 0xac || c == 0xba || c == 0x0f));
	case MAP_0F3A:
	case MAP_XOP8:
		return 1;
	case MAP_XOPA:
		return 4;
	default:
		return 0;
	}
}

/* Whether the opcode of the first map has no such instruction, by the number in ModRM. */
static bool one_lacks(const struct x86_decoder *d)
{
	const uint8_t which = d->reg & 7;

	if (d->opcode == 0xc6 || d->opcode == 0xc7) /* the last is for transactions */
		return which && !(which == 7 && d->mod == 3 && (d->rm & 7) == 0);
	return (d->opcode == 0xfe && which > 1) || (d->opcode == 0x8f && which);
}

static void body(struct x86_decoder *d)
{
	bool has = true;

	if (d->map == MAP_ONE) {
		d->bad |= one_is_bad(d->opcode);
		has = one_has_modrm(d->opcode);
	} else if (d->map == MAP_0F && d->vector) {
		has = d->opcode != 0x77;
	} else if (d->map == MAP_0F) {
		d->bad |= two_is_bad(d->opcode);
		has = two_has_modrm(d->opcode);
	}
	if (d->bad)
		return;
	if (has)
		modrm(d);
	d->bad |= d->map == MAP_ONE && one_lacks(d);
	d->imm = number(d, immediate_bytes(d));
}

#define BIT(n) ((uint16_t)(1u << (n)))

/* Of the first map. */
static bool has_byte_operands(uint8_t c)
{
	if (c < 0x40)
		return !(c & 1) && (c & 7) < 4;
	return c == 0x80 || c == 0x86 || c == 0x88 || c == 0x8a || c == 0xc0 || c == 0xc6 || c == 0xd0 ||
	       c == 0xd2 || c == 0xf6 || c == 0xfe;
}

/* Without a REX prefix, byte registers 4 to 7 are ah to bh. */
static uint16_t register_of(const struct x86_decoder *d, uint8_t number, bool byte)
{
	return BIT(byte && number >= 4 && number < 8 && !d->rex ? number - 4 : number);
}

static uint16_t rm_register(const struct x86_decoder *d)
{
	return d->mod == 3 ? register_of(d, d->rm, has_byte_operands(d->opcode)) : 0;
}

static uint16_t reg_register(const struct x86_decoder *d)
{
	return register_of(d, d->reg, has_byte_operands(d->opcode));
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
	if ((c == 0xc6 || c == 0xc7) && (d->reg & 7)) /* of a transaction */
		return BIT(X86_AX);
	if (c == 0x88 || c == 0x89 || c == 0x8c || c == 0x8f || c == 0xc0 || c == 0xc1 || c == 0xc6 ||
	    c == 0xc7 || (c >= 0xd0 && c <= 0xd3))
		return rm;
	if (c >= 0x90 && c <= 0x97)
		return (uint16_t)(BIT((c & 7) | (d->rex & 1) << 3) | BIT(X86_AX));
	if (c == 0x98 || c == 0x99)
		return c == 0x98 ? BIT(X86_AX) : BIT(X86_DX);
	if (c == 0xa0 || c == 0xa1)
		return BIT(X86_AX);
	if ((c >= 0xa4 && c <= 0xa7) || (c >= 0xaa && c <= 0xaf))
		return BIT(X86_AX) | BIT(X86_CX) | BIT(X86_SI) | BIT(X86_DI);
	if (c >= 0xb0 && c <= 0xbf)
		return register_of(d, (uint8_t)((c & 7) | (d->rex & 1) << 3), c < 0xb8);
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
	    c == 0xbc || c == 0xbd || c == 0xb8 || c == 0x02 || c == 0x03 || c == 0xb2 || c == 0xb4 ||
	    c == 0xb5)
		return reg;
	if ((c & 0xf0) == 0x90)
		return rm ? register_of(d, d->rm, true) : 0;
	if (d->rep && (c == 0x1e || c == 0xae)) /* rdssp, rdfsbase */
		return rm && (c == 0xae || (d->reg & 7) == 1) ? rm : 0;
	if (c == 0xa4 || c == 0xa5 || c == 0xac || c == 0xad || c == 0xab || c == 0xb3 || c == 0xbb)
		return rm;
	if (c == 0xba)
		return (d->reg & 7) == 4 ? 0 : rm;
	if (c == 0xb0 || c == 0xb1)
		return (rm ? register_of(d, d->rm, c == 0xb0) : 0) | BIT(X86_AX);
	if (c == 0xc0 || c == 0xc1)
		return (rm ? register_of(d, d->rm, c == 0xc0) : 0) | register_of(d, d->reg, c == 0xc0);
	if (c == 0xc7) /* cmpxchg16b, rdrand */
		return rm | BIT(X86_AX) | BIT(X86_DX);
	if ((c & 0xf8) == 0xc8)
		return BIT((c & 7) | (d->rex & 1) << 3);
	if (c == 0xa2 || c == 0x31 || c == 0x01 || c == 0x05)
		return rm | BIT(X86_AX) | BIT(X86_BX) | BIT(X86_CX) | BIT(X86_DX) | BIT(11);
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
		if (d->vector && c >= 0xf2 && c <= 0xf7) /* BMI: also writes the register of the prefix */
			return reg | BIT(d->vvvv);
		return c == 0xf0 || c == 0xf1 || c == 0xf6 || (c >= 0xfa && c <= 0xfb) ? reg : 0;
	case MAP_0F3A:
		return (c >= 0x14 && c <= 0x17) ? rm
		       : c == 0xf0		? reg
		       : c >= 0x60 && c <= 0x63 ? BIT(X86_CX)
						: 0;
	case MAP_XOP9:
	case MAP_XOPA:
		return reg | rm | BIT(d->vvvv);
	default:
		return 0;
	}
}

/* The target of an indirect call or jump. */
static void meaning_target(const struct x86_decoder *d, struct x86_insn *i)
{
	i->disp = d->disp;
	if (d->mod == 3 || d->address32)
		return;
	if (d->rip)
		i->base = X86_IP;
	else if (d->index && d->base == X86_NO_REG && d->scale == 8)
		i->reg = d->index_reg;
	else if (!d->index)
		i->base = d->base;
}

static void meaning_group5(const struct x86_decoder *d, struct x86_insn *i)
{
	switch (d->reg & 7) {
	case 2:
		i->op = X86_CALL_FAR_AWAY;
		meaning_target(d, i);
		break;
	case 4:
		i->op = X86_JUMP_FAR_AWAY;
		meaning_target(d, i);
		break;
	case 6:
		i->op = X86_PUSH;
		i->reg = d->mod == 3 ? d->rm : X86_NO_REG;
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

/* 64-bit moves and additions, where a memory operand has a base register and no index. */
static void meaning_data(const struct x86_decoder *d, struct x86_insn *i)
{
	const bool wide = d->rex & 8,
		   simple = d->mod != 3 && !d->index && !d->rip && d->base != X86_NO_REG && !d->address32;
	uint8_t c = d->opcode;

	if (((c == 0x81 || c == 0x83 || c == 0x80) && (d->reg & 7) == 7) || c == 0x3d || c == 0x3c) {
		i->op = X86_COMPARE;
		i->disp = c != 0x81 && c != 0x3d	  ? (int8_t)d->imm
			  : d->operand16 && !(d->rex & 8) ? (int16_t)d->imm
							  : (int32_t)d->imm;
	} else if (((c & 0xf8) == 0xb8 || (c == 0xc7 && d->mod == 3 && !(d->reg & 7))) &&
		   (!d->operand16 || wide)) {
		i->op = d->imm <= INT32_MAX ? X86_CONSTANT : X86_OTHER;
		i->reg = c == 0xc7 ? d->rm : (uint8_t)((c & 7) | (d->rex & 1) << 3);
		i->disp = (int32_t)d->imm;
	}
	if (!wide)
		return;
	if (c == 0x63 && d->index && d->scale == 4 && d->base != X86_NO_REG && !d->disp) {
		i->op = X86_TABLE_ENTRY;
		i->reg = d->reg;
		i->base = d->base;
	} else if ((c == 0x81 || c == 0x83) && d->mod == 3) {
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
	} else if (c == 0x8d && d->rip && !d->address32) {
		i->op = X86_ADDRESS;
		i->reg = d->reg;
		i->base = X86_IP;
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
		} else if ((c == 0x1e || c == 0x1f) &&
			   !d->rep) { /* with this prefix it is endbr64, which is not padding */
			i->op = X86_NOP;
		}
	}
}

/* Sets all fields but the length, which becomes 0 if the instruction is not supported. */
static void effect(const struct x86_decoder *d, struct x86_insn *i)
{
	i->writes = writes(d);
	meaning(d, i);
	if ((i->op == X86_PUSH || i->op == X86_POP) && d->operand16 && !(d->rex & 8))
		i->len = 0; /* two bytes */
}

struct x86_insn x86_decode(const uint8_t *code, size_t n)
{
	struct x86_decoder d = {.code = code, .n = n < X86_MAX_BYTES ? n : X86_MAX_BYTES};
	struct x86_insn i = {.reg = X86_NO_REG, .base = X86_NO_REG};

	opcode(&d);
	if (!d.bad)
		body(&d);
	if (d.bad)
		return i;
	i.len = (uint8_t)d.at;
	effect(&d, &i);
	return i;
}

uint32_t x86_padding(const uint8_t *code, uint32_t n, uint32_t at)
{
	while (at < n) {
		struct x86_insn insn;

		if (code[at] == 0 || code[at] == 0xcc) {
			at++;
			continue;
		}
		insn = x86_decode(code + at, n - at);
		if (insn.op != X86_NOP)
			break;
		at += insn.len;
	}
	return at;
}

uint32_t x86_nops(const uint8_t *code, uint32_t n)
{
	uint32_t at = 0;

	while (at < n) {
		struct x86_insn insn = x86_decode(code + at, n - at);

		if (insn.op != X86_NOP)
			break;
		at += insn.len;
	}
	return at;
}

bool x86_ends_with_nop(const uint8_t *code, size_t end)
{
	for (size_t len = 2; len <= X86_MAX_BYTES && len <= end; len++) {
		const struct x86_insn insn = x86_decode(code + end - len, len);

		if (insn.op == X86_NOP && insn.len == len)
			return true;
	}
	return false;
}

bool x86_begins_function(const uint8_t *code, size_t n)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
	const struct x86_insn insn = x86_decode(code, n);

	return insn.op == X86_PUSH || (insn.op == X86_ADD && insn.reg == X86_SP && insn.disp < 0) ||
	       (insn.len == sizeof endbr64 && memcmp(code, endbr64, sizeof endbr64) == 0);
}

unsigned x86_sigreturn(const uint8_t *code, size_t n)
{
	static const uint8_t eax[] = {0xb8, 15, 0, 0, 0, 0x0f, 0x05};		  /* mov $15, %eax; syscall */
	static const uint8_t rax[] = {0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05}; /* mov $15, %rax; syscall */

	if (n >= sizeof eax && memcmp(code, eax, sizeof eax) == 0)
		return sizeof eax;
	return n >= sizeof rax && memcmp(code, rax, sizeof rax) == 0 ? sizeof rax : 0;
}
