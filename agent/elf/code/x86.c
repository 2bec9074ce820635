// SPDX-License-Identifier: Apache-2.0
/*
 * Decoding has two steps. The first splits an instruction into prefixes, map, opcode, ModRM, displacement and
 * immediate. The second derives the effect from them. Both are driven by the traits of the opcode: tables for
 * the two maps that nearly all instructions are from, a function for the others.
 *
 * Where the registers that an opcode writes are not exactly known, too many are assumed: an extra one costs a
 * row, a missing one makes a row wrong.
 *
 * This is the inner loop of the analysis of code. Bytes are read without a check, since there are always
 * WINDOW_BYTES of them; at last the length is compared with what was really there.
 */
#include "agent/base/cleanup.h"
#include "agent/elf/code/x86.h"

#include <string.h>

#define BIT(n) ((uint16_t)(1u << (n)))
/* More than is read from: prefixes, opcode and operands of an instruction that may be too long. */
#define WINDOW_BYTES 40u

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

/* --- what there is to know of an opcode */

enum {
	MODRM = 1,
	BAD = 2,       /* invalid in 64-bit mode, or does not occur in functions */
	PREFIX = 4,    /* no opcode, but a prefix, or the first byte of a longer one */
	BYTES = 8,     /* registers are byte registers */
	SETS_RM = 16,  /* writes the operand of ModRM that may be memory */
	SETS_REG = 32, /* the other one */
	SETS_LOW = 64, /* the register in the opcode's low bits */
};

/*
 * Immediates, and addresses and distances in their place. The lower four bits are the number of bytes, which
 * may be another one where there are more bits.
 */
enum immediate {
	NO_IMM = 0,
	IMM_8 = 1,
	IMM_16 = 2,
	IMM_32 = 4,
	IMM_Z = 0x10 | 4,	/* 2 with an operand-size prefix */
	IMM_V = 0x20 | 4,	/* the same, 8 with REX.W */
	IMM_ADDRESS = 0x40 | 8, /* an address, of a global variable of Free Pascal for example */
	IMM_TEST_8 = 0x80 | 1,	/* only of `test` among the instructions of its group */
	IMM_TEST_Z = 0x80 | 4,
};

#define IMM_BYTES 0x0f /* of enum immediate */

/* How the effect is derived, if there is one that matters besides the registers written. */
enum meaning {
	M_NONE,
	M_PUSH,	    /* of something that is no register */
	M_PUSH_LOW, /* of the register in the opcode's low bits */
	M_POP,
	M_POP_LOW,
	M_POP_RM,
	M_JUMP,
	M_BRANCH,
	M_CALL,
	M_SYSCALL,
	M_RETURN,
	M_LEAVE,
	M_TRAP,
	M_NOP,
	M_NOP_OR_EXCHANGE,
	M_COMPARE,
	M_CONSTANT,
	M_MOVE,
	M_MOVE_IMMEDIATE,
	M_EXTEND, /* movslq */
	M_LEA,
	M_GROUP1, /* add or adc sbb and sub xor cmp with an immediate */
	M_GROUP3, /* test not neg mul div */
	M_GROUP4, /* inc dec */
	M_GROUP5, /* inc dec call jmp push */
	M_BIT_TEST,
	M_SHADOW_STACK,	   /* with a prefix; else nop */
	M_SEGMENT_BASE,	   /* with a prefix */
	M_MOVE_FROM_VECTOR /* not with a prefix */
};

struct traits {
	uint8_t flags, immediate, meaning;
	uint16_t writes; /* registers that it writes besides the operands */
};

#define AX BIT(X86_AX)
#define CX BIT(X86_CX)
#define DX BIT(X86_DX)
#define BX BIT(X86_BX)
#define STRING_REGS (AX | CX | BIT(X86_SI) | BIT(X86_DI))

/* The six forms that each of add or adc sbb and sub xor has. */
#define ARITHMETIC(c)                                                                             \
	[c] = {.flags = MODRM | BYTES | SETS_RM}, [(c) + 1] = {.flags = MODRM | SETS_RM},         \
	[(c) + 2] = {.flags = MODRM | BYTES | SETS_REG}, [(c) + 3] = {.flags = MODRM | SETS_REG}, \
	[(c) + 4] = {.immediate = IMM_8, .writes = AX}, [(c) + 5] = {.immediate = IMM_Z, .writes = AX}

/* Opcodes that are not named in the tables write no general register. */
static const struct traits one_byte[256] = {
	ARITHMETIC(0x00),
	ARITHMETIC(0x08),
	ARITHMETIC(0x10),
	ARITHMETIC(0x18),
	ARITHMETIC(0x20),
	ARITHMETIC(0x28),
	ARITHMETIC(0x30),
	[0x06 ... 0x07] = {.flags = BAD}, /* push es, ... */
	[0x0e] = {.flags = BAD},
	[0x0f] = {.flags = PREFIX},
	[0x16 ... 0x17] = {.flags = BAD},
	[0x1e ... 0x1f] = {.flags = BAD},
	[0x26] = {.flags = PREFIX},
	[0x27] = {.flags = BAD}, /* daa, ... */
	[0x2e] = {.flags = PREFIX},
	[0x2f] = {.flags = BAD},
	[0x36] = {.flags = PREFIX},
	[0x37] = {.flags = BAD},
	[0x38 ... 0x3b] = {.flags = MODRM}, /* cmp */
	[0x3c] = {.immediate = IMM_8, .meaning = M_COMPARE},
	[0x3d] = {.immediate = IMM_Z, .meaning = M_COMPARE},
	[0x3e] = {.flags = PREFIX},
	[0x3f] = {.flags = BAD},
	[0x40 ... 0x4f] = {.flags = PREFIX}, /* REX */
	[0x50 ... 0x57] = {.meaning = M_PUSH_LOW},
	[0x58 ... 0x5f] = {.flags = SETS_LOW, .meaning = M_POP_LOW},
	[0x60 ... 0x61] = {.flags = BAD}, /* pusha popa */
	[0x62] = {.flags = PREFIX},	  /* EVEX */
	[0x63] = {.flags = MODRM | SETS_REG, .meaning = M_EXTEND},
	[0x64 ... 0x67] = {.flags = PREFIX},
	[0x68] = {.immediate = IMM_Z, .meaning = M_PUSH},
	[0x69] = {.flags = MODRM | SETS_REG, .immediate = IMM_Z}, /* imul */
	[0x6a] = {.immediate = IMM_8, .meaning = M_PUSH},
	[0x6b] = {.flags = MODRM | SETS_REG, .immediate = IMM_8},
	[0x6c ... 0x6f] = {.flags = BAD}, /* ins outs */
	[0x70 ... 0x7f] = {.immediate = IMM_8, .meaning = M_BRANCH},
	[0x80] = {.flags = MODRM | BYTES, .immediate = IMM_8, .meaning = M_GROUP1},
	[0x81] = {.flags = MODRM, .immediate = IMM_Z, .meaning = M_GROUP1},
	[0x82] = {.flags = BAD},
	[0x83] = {.flags = MODRM, .immediate = IMM_8, .meaning = M_GROUP1},
	[0x84 ... 0x85] = {.flags = MODRM},			/* test */
	[0x86] = {.flags = MODRM | BYTES | SETS_RM | SETS_REG}, /* xchg */
	[0x87] = {.flags = MODRM | SETS_RM | SETS_REG},
	[0x88] = {.flags = MODRM | BYTES | SETS_RM}, /* mov */
	[0x89] = {.flags = MODRM | SETS_RM, .meaning = M_MOVE},
	[0x8a] = {.flags = MODRM | BYTES | SETS_REG},
	[0x8b] = {.flags = MODRM | SETS_REG, .meaning = M_MOVE},
	[0x8c] = {.flags = MODRM | SETS_RM}, /* of segment registers */
	[0x8d] = {.flags = MODRM | SETS_REG, .meaning = M_LEA},
	[0x8e] = {.flags = MODRM},
	[0x8f] = {.flags = PREFIX}, /* XOP, or pop */
	[0x90] = {.flags = SETS_LOW, .meaning = M_NOP_OR_EXCHANGE, .writes = AX},
	[0x91 ... 0x97] = {.flags = SETS_LOW, .writes = AX}, /* xchg */
	[0x98] = {.writes = AX},			     /* cltq */
	[0x99] = {.writes = DX},			     /* cqto */
	[0x9a] = {.flags = BAD},			     /* far call */
	[0x9c] = {.meaning = M_PUSH},
	[0x9d] = {.meaning = M_POP},
	[0x9f] = {.writes = AX | CX}, /* lahf */
	[0xa0 ... 0xa1] = {.immediate = IMM_ADDRESS, .writes = AX},
	[0xa2 ... 0xa3] = {.immediate = IMM_ADDRESS},
	[0xa4 ... 0xa7] = {.writes = STRING_REGS},
	[0xa8] = {.immediate = IMM_8}, /* test */
	[0xa9] = {.immediate = IMM_Z},
	[0xaa ... 0xaf] = {.writes = STRING_REGS},
	[0xb0 ... 0xb7] = {.flags = BYTES | SETS_LOW, .immediate = IMM_8},
	[0xb8 ... 0xbf] = {.flags = SETS_LOW, .immediate = IMM_V, .meaning = M_CONSTANT},
	[0xc0] = {.flags = MODRM | BYTES | SETS_RM, .immediate = IMM_8}, /* shifts */
	[0xc1] = {.flags = MODRM | SETS_RM, .immediate = IMM_8},
	[0xc2] = {.immediate = IMM_16, .meaning = M_RETURN},
	[0xc3] = {.meaning = M_RETURN},
	[0xc4 ... 0xc5] = {.flags = PREFIX}, /* VEX */
	[0xc6] = {.flags = MODRM | BYTES | SETS_RM, .immediate = IMM_8, .meaning = M_MOVE_IMMEDIATE},
	[0xc7] = {.flags = MODRM | SETS_RM, .immediate = IMM_Z, .meaning = M_MOVE_IMMEDIATE},
	[0xc8] = {.flags = BAD}, /* enter */
	[0xc9] = {.meaning = M_LEAVE},
	[0xca ... 0xcb] = {.flags = BAD}, /* far return */
	[0xcc] = {.meaning = M_TRAP},
	[0xcd ... 0xcf] = {.flags = BAD},	     /* interrupts */
	[0xd0] = {.flags = MODRM | BYTES | SETS_RM}, /* shifts */
	[0xd1] = {.flags = MODRM | SETS_RM},
	[0xd2] = {.flags = MODRM | BYTES | SETS_RM},
	[0xd3] = {.flags = MODRM | SETS_RM},
	[0xd4 ... 0xd6] = {.flags = BAD},
	[0xd7] = {.writes = AX | CX},	    /* xlat */
	[0xd8 ... 0xde] = {.flags = MODRM}, /* x87 */
	[0xdf] = {.flags = MODRM, .writes = AX | CX},
	[0xe0 ... 0xe3] = {.immediate = IMM_8, .meaning = M_BRANCH, .writes = AX | CX}, /* loop, jrcxz */
	[0xe4 ... 0xe7] = {.flags = BAD},						/* in out */
	[0xe8] = {.immediate = IMM_32, .meaning = M_CALL},
	[0xe9] = {.immediate = IMM_32, .meaning = M_JUMP},
	[0xea] = {.flags = BAD}, /* far jump */
	[0xeb] = {.immediate = IMM_8, .meaning = M_JUMP},
	[0xec ... 0xef] = {.flags = BAD},
	[0xf0] = {.flags = PREFIX}, /* lock */
	[0xf1] = {.flags = BAD},
	[0xf2 ... 0xf3] = {.flags = PREFIX},
	[0xf4] = {.meaning = M_TRAP}, /* hlt */
	[0xf6] = {.flags = MODRM | BYTES, .immediate = IMM_TEST_8, .meaning = M_GROUP3},
	[0xf7] = {.flags = MODRM, .immediate = IMM_TEST_Z, .meaning = M_GROUP3},
	[0xfa ... 0xfb] = {.flags = BAD}, /* cli sti */
	[0xfe] = {.flags = MODRM | BYTES, .meaning = M_GROUP4},
	[0xff] = {.flags = MODRM, .meaning = M_GROUP5},
};

/* Behind 0f. */
static const struct traits two_bytes[256] = {
	[0x00] = {.flags = BAD},
	[0x01] = {.flags = MODRM | SETS_RM, .writes = AX | BX | CX | DX | BIT(11)},
	[0x02 ... 0x04] = {.flags = BAD},
	[0x05] = {.meaning = M_SYSCALL, .writes = AX | BX | CX | DX | BIT(11)},
	[0x06 ... 0x0a] = {.flags = BAD},
	[0x0b] = {.meaning = M_TRAP}, /* ud2 */
	[0x0c] = {.flags = BAD},
	[0x0d] = {.flags = MODRM},
	[0x0e] = {0},
	[0x0f] = {.flags = MODRM, .immediate = IMM_8},
	[0x10 ... 0x1d] = {.flags = MODRM},
	[0x1e] = {.flags = MODRM, .meaning = M_SHADOW_STACK},
	[0x1f] = {.flags = MODRM, .meaning = M_NOP},
	[0x20 ... 0x27] = {.flags = BAD}, /* control registers */
	[0x28 ... 0x2b] = {.flags = MODRM},
	[0x2c ... 0x2d] = {.flags = MODRM | SETS_REG}, /* cvtss2si */
	[0x2e ... 0x2f] = {.flags = MODRM},
	[0x30] = {.flags = BAD},
	[0x31] = {.writes = AX | BX | CX | DX | BIT(11)}, /* rdtsc */
	[0x32 ... 0x37] = {.flags = BAD},
	[0x38] = {.flags = PREFIX}, /* to other maps */
	[0x39] = {.flags = BAD},
	[0x3a] = {.flags = PREFIX},
	[0x3b ... 0x3f] = {.flags = BAD},
	[0x40 ... 0x4f] = {.flags = MODRM | SETS_REG}, /* cmov */
	[0x50] = {.flags = MODRM | SETS_REG},	       /* movmskps */
	[0x51 ... 0x6f] = {.flags = MODRM},
	[0x70 ... 0x73] = {.flags = MODRM, .immediate = IMM_8},
	[0x74 ... 0x76] = {.flags = MODRM},
	[0x77] = {0},
	[0x78 ... 0x7b] = {.flags = BAD},
	[0x7c ... 0x7d] = {.flags = MODRM},
	[0x7e] = {.flags = MODRM, .meaning = M_MOVE_FROM_VECTOR},
	[0x7f] = {.flags = MODRM},
	[0x80 ... 0x8f] = {.immediate = IMM_32, .meaning = M_BRANCH},
	[0x90 ... 0x9f] = {.flags = MODRM | BYTES | SETS_RM}, /* setcc */
	[0xa0 ... 0xa1] = {.flags = BAD},
	[0xa2] = {.writes = AX | BX | CX | DX | BIT(11)}, /* cpuid */
	[0xa3] = {.flags = MODRM},
	[0xa4] = {.flags = MODRM | SETS_RM, .immediate = IMM_8}, /* shld */
	[0xa5] = {.flags = MODRM | SETS_RM},
	[0xa6 ... 0xaa] = {.flags = BAD},
	[0xab] = {.flags = MODRM | SETS_RM}, /* bts */
	[0xac] = {.flags = MODRM | SETS_RM, .immediate = IMM_8},
	[0xad] = {.flags = MODRM | SETS_RM},
	[0xae] = {.flags = MODRM, .meaning = M_SEGMENT_BASE},
	[0xaf] = {.flags = MODRM | SETS_REG},			   /* imul */
	[0xb0] = {.flags = MODRM | BYTES | SETS_RM, .writes = AX}, /* cmpxchg */
	[0xb1] = {.flags = MODRM | SETS_RM, .writes = AX},
	[0xb2] = {.flags = MODRM | SETS_REG},
	[0xb3] = {.flags = MODRM | SETS_RM},
	[0xb4 ... 0xb8] = {.flags = MODRM | SETS_REG}, /* movzx popcnt */
	[0xb9] = {.flags = MODRM, .meaning = M_TRAP},  /* ud1 */
	[0xba] = {.flags = MODRM, .immediate = IMM_8, .meaning = M_BIT_TEST},
	[0xbb] = {.flags = MODRM | SETS_RM},
	[0xbc ... 0xbf] = {.flags = MODRM | SETS_REG},		/* bsf movsx */
	[0xc0] = {.flags = MODRM | BYTES | SETS_RM | SETS_REG}, /* xadd */
	[0xc1] = {.flags = MODRM | SETS_RM | SETS_REG},
	[0xc2] = {.flags = MODRM, .immediate = IMM_8},
	[0xc3] = {.flags = MODRM},
	[0xc4] = {.flags = MODRM, .immediate = IMM_8},
	[0xc5] = {.flags = MODRM | SETS_REG, .immediate = IMM_8}, /* pextrw */
	[0xc6] = {.flags = MODRM, .immediate = IMM_8},
	[0xc7] = {.flags = MODRM | SETS_RM, .writes = AX | DX}, /* cmpxchg16b, rdrand */
	[0xc8 ... 0xcf] = {.flags = SETS_LOW},			/* bswap */
	[0xd0 ... 0xd6] = {.flags = MODRM},
	[0xd7] = {.flags = MODRM | SETS_REG}, /* pmovmskb */
	[0xd8 ... 0xfe] = {.flags = MODRM},
	[0xff] = {.flags = BAD},
};

static const struct traits pop_rm = {.flags = MODRM | SETS_RM, .meaning = M_POP_RM};

/* --- the parts of an instruction */

struct x86_decoder {
	const uint8_t *code;	  /* WINDOW_BYTES of them */
	uint8_t map, opcode, rex; /* rex: bits W R X B as in the REX prefix, also from the longer prefixes */
	bool vector;		  /* the prefix is VEX, EVEX or XOP */
	bool operand16, address32, rep, repne, bad;
	uint8_t vvvv;
	uint8_t modrm, sib; /* 0 if there is none */
	uint8_t disp_bytes;
	unsigned at; /* offset behind what was parsed */
	unsigned disp_at, imm_at, imm_bytes;
};

static uint8_t byte(struct x86_decoder *d)
{
	return d->code[d->at++];
}

/* Parses a VEX prefix of two or three bytes, XOP, or EVEX. False: it is none of them. */
static bool vector_prefix(struct x86_decoder *d, uint8_t first)
{
	uint8_t a, b = 0;

	if (first == 0x8f && (d->code[d->at] & 0x1f) < MAP_XOP8)
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

/* Traits of the opcodes of all maps but the first two. Those of vectors rarely write general registers. */
static struct traits rare_traits(const struct x86_decoder *d)
{
	struct traits t = {.flags = MODRM};
	const uint8_t c = d->opcode;

	switch (d->map) {
	case MAP_0F:
		if (c == 0x77)
			t.flags = 0;
		else if (c == 0x50 || c == 0xd7 || c == 0xc5 || c == 0x2c || c == 0x2d || c == 0x93 ||
			 c == 0x78 || c == 0x79)
			t.flags |= SETS_REG;
		else if (c == 0x7e)
			t.meaning = M_MOVE_FROM_VECTOR;
		if ((c >= 0x70 && c <= 0x73) || c == 0xc2 || (c >= 0xc4 && c <= 0xc6))
			t.immediate = IMM_8;
		break;
	case MAP_0F38:
		if (c == 0xf0 || c == 0xf1 || c == 0xf6 || c == 0xfa || c == 0xfb)
			t.flags |= SETS_REG;
		if (d->vector && c >= 0xf2 && c <= 0xf7) { /* BMI: also writes the register of the prefix */
			t.flags |= SETS_REG;
			t.writes = BIT(d->vvvv);
		}
		break;
	case MAP_0F3A:
		t.immediate = IMM_8;
		t.flags |= c >= 0x14 && c <= 0x17 ? SETS_RM : c == 0xf0 ? SETS_REG : 0;
		t.writes = c >= 0x60 && c <= 0x63 ? CX : 0;
		break;
	case MAP_XOP8:
		t.immediate = IMM_8;
		break;
	case MAP_XOP9:
	case MAP_XOPA:
		t.immediate = d->map == MAP_XOPA ? IMM_32 : NO_IMM;
		t.flags |= SETS_RM | SETS_REG;
		t.writes = BIT(d->vvvv);
		break;
	default:
		break;
	}
	return t;
}

/* Parses what begins with another prefix than REX, or with the escape to a rare map. */
static struct traits prefixes(struct x86_decoder *d)
{
	uint8_t c, rex = 0;

	d->at = 0;
	for (;; rex = (c & 0xf0) == 0x40 ? c : 0) { /* before another prefix, REX has no effect */
		c = byte(d);
		if (d->at > X86_MAX_BYTES) /* too long by now, and what follows may not be there */
			break;
		if (c == 0x66)
			d->operand16 = true;
		else if (c == 0x67)
			d->address32 = true;
		else if (c == 0xf3)
			d->rep = true;
		else if (c == 0xf2)
			d->repne = true;
		else if (c != 0x2e && c != 0x36 && c != 0x3e && c != 0x26 && c != 0x64 && c != 0x65 &&
			 c != 0xf0 && (c & 0xf0) != 0x40)
			break;
	}
	d->rex = rex;
	d->map = MAP_ONE;
	if (vector_prefix(d, c))
		return rare_traits(d);
	if (c == 0x8f)
		return pop_rm;
	d->map = c == 0x0f ? MAP_0F : MAP_ONE;
	d->opcode = d->map == MAP_0F ? byte(d) : c;
	if (d->map == MAP_ONE || (d->opcode != 0x38 && d->opcode != 0x3a))
		return d->map == MAP_0F ? two_bytes[d->opcode] : one_byte[d->opcode];
	d->map = d->opcode == 0x38 ? MAP_0F38 : MAP_0F3A;
	d->opcode = byte(d);
	return rare_traits(d);
}

static inline bool is_wide(const struct x86_decoder *d)
{
	return d->rex & 8;
}

static inline uint8_t mod_of(const struct x86_decoder *d)
{
	return d->modrm >> 6;
}

/* The number in ModRM that is a register, or selects an instruction of a group. */
static inline uint8_t which_of(const struct x86_decoder *d)
{
	return d->modrm >> 3 & 7;
}

static inline uint8_t reg_of(const struct x86_decoder *d)
{
	return (uint8_t)(which_of(d) | (d->rex & 4) << 1);
}

static inline uint8_t rm_of(const struct x86_decoder *d)
{
	return (uint8_t)((d->modrm & 7) | (d->rex & 1) << 3);
}

static inline bool has_sib(const struct x86_decoder *d)
{
	return (d->modrm & 7) == 4 && mod_of(d) != 3;
}

static inline bool has_index(const struct x86_decoder *d)
{
	return has_sib(d) && ((d->sib & 0x38) != 0x20 || d->rex & 2);
}

/* Whether the address has a distance of four bytes in place of a base. */
static inline bool lacks_base(const struct x86_decoder *d)
{
	return mod_of(d) == 0 && ((has_sib(d) ? d->sib : d->modrm) & 7) == 5;
}

/* Whether the address is relative to the end of the instruction. */
static inline bool is_rip_relative(const struct x86_decoder *d)
{
	return (d->modrm & 0xc7) == 5;
}

static inline uint8_t base_of(const struct x86_decoder *d)
{
	const uint8_t low = (has_sib(d) ? d->sib : d->modrm) & 7;

	return lacks_base(d) ? X86_NO_REG : (uint8_t)(low | (d->rex & 1) << 3);
}

static inline void parse_modrm(struct x86_decoder *d)
{
	d->modrm = byte(d);
	d->sib = d->code[d->at];
	d->at += has_sib(d);
	d->disp_at = d->at;
	d->disp_bytes = mod_of(d) == 1 ? 1 : mod_of(d) == 2 || lacks_base(d) ? 4 : 0;
	d->at += d->disp_bytes;
}

static inline void parse_immediate(struct x86_decoder *d, uint8_t immediate)
{
	unsigned bytes = immediate & IMM_BYTES;

	if (d->operand16 && !is_wide(d) && bytes == 4 && immediate != IMM_32)
		bytes = 2;
	if (immediate == IMM_V && is_wide(d))
		bytes = 8;
	if (immediate == IMM_ADDRESS && d->address32)
		bytes = 4;
	if (immediate >= IMM_TEST_8 && which_of(d) > 1)
		bytes = 0;
	d->imm_at = d->at;
	d->imm_bytes = bytes;
	d->at += bytes;
}

static inline int32_t disp_of(const struct x86_decoder *d)
{
	int32_t disp;

	memcpy(&disp, d->code + d->disp_at, sizeof disp);
	return d->disp_bytes == 4 ? disp : d->disp_bytes == 1 ? (int8_t)disp : 0;
}

/* The lower half of the immediate, with the sign of its bytes. */
static inline int32_t imm_of(const struct x86_decoder *d)
{
	int32_t imm;

	memcpy(&imm, d->code + d->imm_at, sizeof imm);
	return d->imm_bytes == 1 ? (int8_t)imm : d->imm_bytes == 2 ? (int16_t)imm : imm;
}

/* --- the effect */

/* Without a REX prefix, byte registers 4 to 7 are ah to bh. */
static inline uint16_t register_of(const struct x86_decoder *d, uint8_t number, bool bytes)
{
	return BIT(bytes && number >= 4 && number < 8 && !d->rex ? number - 4 : number);
}

static inline uint16_t rm_register(const struct x86_decoder *d, const struct traits *t)
{
	return mod_of(d) == 3 ? register_of(d, rm_of(d), t->flags & BYTES) : 0;
}

static inline uint8_t low_of(const struct x86_decoder *d)
{
	return (uint8_t)((d->opcode & 7) | (d->rex & 1) << 3);
}

/* The registers that the traits name. */
static inline uint16_t writes(const struct x86_decoder *d, const struct traits *t)
{
	const bool bytes = t->flags & BYTES;
	uint16_t w = t->writes;

	if (t->flags & SETS_RM)
		w |= rm_register(d, t);
	if (t->flags & SETS_REG)
		w |= register_of(d, reg_of(d), bytes);
	if (t->flags & SETS_LOW)
		w |= register_of(d, low_of(d), bytes);
	return w;
}

/* Whether the operand is memory at a base register and a distance. */
static inline bool is_simple(const struct x86_decoder *d)
{
	return mod_of(d) != 3 && !has_index(d) && !lacks_base(d) && !d->address32;
}

/* The target of an indirect call or jump. */
static void target(const struct x86_decoder *d, struct x86_insn *i)
{
	i->disp = disp_of(d);
	if (mod_of(d) == 3 || d->address32)
		return;
	if (is_rip_relative(d))
		i->base = X86_IP;
	else if (!has_index(d))
		i->base = base_of(d);
	else if (lacks_base(d) && d->sib >> 6 == 3)
		i->reg = (uint8_t)((d->sib >> 3 & 7) | (d->rex & 2) << 2);
}

static void push_pop(const struct x86_decoder *d, enum x86_op op, uint8_t reg, struct x86_insn *i)
{
	i->op = op;
	i->reg = reg;
	if (d->operand16 && !is_wide(d))
		i->len = 0; /* two bytes */
}

static void group5(const struct x86_decoder *d, const struct traits *t, struct x86_insn *i)
{
	switch (which_of(d)) {
	case 0:
	case 1:
		i->writes = rm_register(d, t);
		break;
	case 2:
		i->op = X86_CALL_FAR_AWAY;
		target(d, i);
		break;
	case 4:
		i->op = X86_JUMP_FAR_AWAY;
		target(d, i);
		break;
	case 6:
		push_pop(d, X86_PUSH, mod_of(d) == 3 ? rm_of(d) : X86_NO_REG, i);
		break;
	default:
		i->len = 0;
	}
}

static void compare(const struct x86_decoder *d, struct x86_insn *i)
{
	i->op = X86_COMPARE;
	i->disp = imm_of(d);
}

static void group1(const struct x86_decoder *d, const struct traits *t, struct x86_insn *i)
{
	const int32_t value = imm_of(d);
	const uint8_t which = which_of(d);

	if (which == 7) {
		compare(d, i);
		return;
	}
	i->writes = rm_register(d, t);
	if (!is_wide(d) || d->opcode == 0x80 || mod_of(d) != 3 || value == INT32_MIN ||
	    (which != 0 && which != 5 && which != 4))
		return;
	i->op = which == 4 ? X86_AND : X86_ADD;
	i->reg = rm_of(d);
	i->disp = which == 5 ? -value : value;
}

static void constant(const struct x86_decoder *d, uint8_t reg, struct x86_insn *i)
{
	uint32_t high;

	if (d->operand16 && !is_wide(d))
		return;
	memcpy(&high, d->code + d->imm_at + sizeof high, sizeof high);
	i->reg = reg;
	i->disp = imm_of(d);
	i->op = i->disp >= 0 && (d->imm_bytes < 8 || !high) ? X86_CONSTANT : X86_OTHER;
}

/* Of the group, there is only `mov`, and instructions of transactions. */
static void move_immediate(const struct x86_decoder *d, struct x86_insn *i)
{
	if (which_of(d))
		i->writes = AX;
	else if (d->opcode == 0xc7 && mod_of(d) == 3)
		constant(d, rm_of(d), i);
}

static void move(const struct x86_decoder *d, struct x86_insn *i)
{
	const bool loads = d->opcode == 0x8b;

	if (!is_wide(d))
		return;
	i->reg = loads || mod_of(d) != 3 ? reg_of(d) : rm_of(d);
	i->base = mod_of(d) != 3 ? base_of(d) : loads ? rm_of(d) : reg_of(d);
	i->disp = disp_of(d);
	if (mod_of(d) == 3)
		i->op = X86_MOVE;
	else if (is_simple(d))
		i->op = loads ? X86_LOAD : X86_STORE;
}

static void lea(const struct x86_decoder *d, struct x86_insn *i)
{
	const bool simple = is_simple(d);

	if (!is_wide(d) || !(simple || (is_rip_relative(d) && !d->address32)))
		return;
	i->op = simple ? X86_LEA : X86_ADDRESS;
	i->reg = reg_of(d);
	i->base = simple ? base_of(d) : X86_IP;
	i->disp = disp_of(d);
}

static void extend(const struct x86_decoder *d, struct x86_insn *i)
{
	if (!is_wide(d) || !has_index(d) || d->sib >> 6 != 2 || lacks_base(d) || disp_of(d))
		return;
	i->op = X86_TABLE_ENTRY;
	i->reg = reg_of(d);
	i->base = base_of(d);
}

/* Of instructions whose effect depends on more than the opcode, besides moves. */
static void effect_of_group(const struct x86_decoder *d, const struct traits *t, struct x86_insn *i)
{
	const uint8_t which = which_of(d);

	switch (t->meaning) {
	case M_POP_RM:
		push_pop(d, X86_POP, mod_of(d) == 3 ? rm_of(d) : X86_NO_REG, i);
		break;
	case M_NOP:
		i->op = d->rep ? X86_OTHER : X86_NOP;
		break;
	case M_NOP_OR_EXCHANGE:
		if (!(d->rex & 1)) {
			i->op = X86_NOP;
			i->writes = 0;
		}
		break;
	case M_GROUP1:
		group1(d, t, i);
		break;
	case M_GROUP3:
		i->writes = which < 2 ? 0 : which < 4 ? rm_register(d, t) : AX | DX;
		break;
	case M_GROUP4:
		i->writes = rm_register(d, t);
		break;
	case M_GROUP5:
		group5(d, t, i);
		break;
	case M_BIT_TEST:
		i->writes = which == 4 ? 0 : rm_register(d, t);
		break;
	case M_SHADOW_STACK: /* also endbr64, which is not padding */
		i->op = d->rep ? X86_OTHER : X86_NOP;
		i->writes = d->rep && which == 1 ? rm_register(d, t) : 0;
		break;
	case M_SEGMENT_BASE:
		i->writes = d->rep ? rm_register(d, t) : 0;
		break;
	case M_MOVE_FROM_VECTOR:
		i->writes = d->rep ? 0 : rm_register(d, t);
		break;
	default:
		break;
	}
}

/* Sets what follows from the meaning of the opcode, besides the registers that its traits name. */
static void effect(const struct x86_decoder *d, const struct traits *t, struct x86_insn *i)
{
	static const uint8_t ops[] = {
		[M_PUSH] = X86_PUSH,
		[M_PUSH_LOW] = X86_PUSH,
		[M_POP] = X86_POP,
		[M_POP_LOW] = X86_POP,
		[M_POP_RM] = X86_POP,
		[M_JUMP] = X86_JUMP,
		[M_BRANCH] = X86_BRANCH,
		[M_CALL] = X86_CALL,
		[M_SYSCALL] = X86_CALL_FAR_AWAY,
		[M_RETURN] = X86_RETURN,
		[M_LEAVE] = X86_LEAVE,
		[M_TRAP] = X86_TRAP,
		[M_MOVE_FROM_VECTOR] = X86_OTHER,
	};

	i->op = ops[t->meaning];
	switch ((enum meaning)t->meaning) {
	case M_NONE:
	case M_SYSCALL:
	case M_RETURN:
	case M_LEAVE:
	case M_TRAP:
		break;
	case M_PUSH:
	case M_POP:
		push_pop(d, i->op, X86_NO_REG, i);
		break;
	case M_PUSH_LOW:
	case M_POP_LOW:
		push_pop(d, i->op, low_of(d), i);
		break;
	case M_JUMP:
	case M_BRANCH:
	case M_CALL:
		i->disp = imm_of(d);
		break;
	case M_COMPARE:
		compare(d, i);
		break;
	case M_CONSTANT:
		constant(d, low_of(d), i);
		break;
	case M_MOVE:
		move(d, i);
		break;
	case M_MOVE_IMMEDIATE:
		move_immediate(d, i);
		break;
	case M_EXTEND:
		extend(d, i);
		break;
	case M_LEA:
		lea(d, i);
		break;
	default:
		effect_of_group(d, t, i);
	}
}

/* Whether the opcode has no such instruction, by the number in ModRM. */
static bool lacks(const struct x86_decoder *d, uint8_t meaning)
{
	const uint8_t which = which_of(d);

	if (meaning == M_MOVE_IMMEDIATE) /* the last is for transactions */
		return which && !(which == 7 && mod_of(d) == 3 && (rm_of(d) & 7) == 0);
	return (meaning == M_GROUP4 && which > 1) || (meaning == M_POP_RM && which);
}

/* The rest of an instruction whose opcode has these traits. `n`: bytes that there are of it. */
static inline void decode_rest(struct x86_insn *i, struct x86_decoder *d, const struct traits *t, size_t n)
{
	if (t->flags & MODRM)
		parse_modrm(d);
	parse_immediate(d, t->immediate);
	if (d->bad || t->flags & BAD || d->at > n || lacks(d, t->meaning))
		return;
	i->len = (uint8_t)d->at;
	i->writes = writes(d, t);
	effect(d, t, i);
}

static __attribute__((noinline)) void decode_prefixed(struct x86_insn *i, const uint8_t *code, size_t n)
{
	struct x86_decoder d = {.code = code};
	const struct traits t = prefixes(&d);

	decode_rest(i, &d, &t, n);
}

/* `code` has WINDOW_BYTES, of which `n` count. Most instructions have no other prefix than REX. */
static inline void decode(struct x86_insn *i, const uint8_t *code, size_t n)
{
	const bool has_rex = (code[0] & 0xf0) == 0x40, escaped = code[has_rex] == 0x0f;
	const unsigned at = has_rex + escaped;
	const struct traits *t = &(escaped ? two_bytes : one_byte)[code[at]];

	if (t->flags & PREFIX) {
		decode_prefixed(i, code, n);
	} else {
		struct x86_decoder d = {.code = code,
					.map = escaped ? MAP_0F : MAP_ONE,
					.opcode = code[at],
					.rex = has_rex ? code[0] : 0,
					.at = at + 1};

		decode_rest(i, &d, t, n);
	}
}

/* The same where less than WINDOW_BYTES are left. */
static __attribute__((noinline)) void decode_last(struct x86_insn *i, const uint8_t *code, size_t n)
{
	uint8_t window[WINDOW_BYTES] = {0};

	memcpy(window, code, n);
	decode(i, window, n < X86_MAX_BYTES ? n : X86_MAX_BYTES);
}

__attribute__((flatten)) void x86_read(struct x86_insn *ret, const uint8_t *code, size_t n)
{
	*ret = (struct x86_insn){.reg = X86_NO_REG, .base = X86_NO_REG};
	if (n < WINDOW_BYTES)
		decode_last(ret, code, n);
	else
		decode(ret, code, X86_MAX_BYTES);
}

static bool is_prefix(uint8_t c)
{
	return one_byte[c].flags & PREFIX;
}

/* False for nearly all instructions that are none. */
static bool may_be_nop(const uint8_t *code, size_t n)
{
	const uint8_t second = n > 1 ? code[1] : 0;

	if (code[0] == 0x0f)
		return (second & 0xfe) == 0x1e;
	return code[0] == 0x90 || (is_prefix(code[0]) && (second == 0x90 || is_prefix(second)));
}

uint32_t x86_nops(const uint8_t *code, uint32_t n)
{
	uint32_t at = 0;

	while (at < n && may_be_nop(code + at, n - at)) {
		const struct x86_insn insn = x86_decode(code + at, n - at);

		if (insn.op != X86_NOP)
			break;
		at += insn.len;
	}
	return at;
}

uint32_t x86_padding(const uint8_t *code, uint32_t n, uint32_t at)
{
	uint32_t nops;

	do {
		while (at < n && (code[at] == 0 || code[at] == 0xcc))
			at++;
		nops = x86_nops(code + at, n - at);
		at += nops;
	} while (nops);
	return at;
}

bool x86_ends_with_nop(const uint8_t *code, size_t end)
{
	for (size_t len = 2; len <= X86_MAX_BYTES && len <= end; len++) {
		if (!may_be_nop(code + end - len, len))
			continue;
		const struct x86_insn insn = x86_decode(code + end - len, len);

		if (insn.op == X86_NOP && insn.len == len)
			return true;
	}
	return false;
}

uint8_t x86_dwarf_number(uint8_t reg)
{
	static const uint8_t numbers[8] = {0, 2, 1, 3, 7, 6, 4, 5};

	return reg < ARRAY_SIZE(numbers) ? numbers[reg] : reg;
}

bool x86_makes_record(const uint8_t *code, size_t n)
{
	return n >= X86_RECORD_BYTES && code[0] == 0x55 && code[1] == 0x48 &&
	       ((code[2] == 0x89 && code[3] == 0xe5) || (code[2] == 0x8b && code[3] == 0xec));
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
