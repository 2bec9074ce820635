// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/shadow/insn.h"

#include <stdbool.h>
#include <string.h>

#define REX_W 8
#define REX_R 4
#define REX_B 1
#define RSP 4
#define RBP 5

static bool is_prefix(uint8_t b)
{
	return b && strchr("\x66\x67\xf0\xf2\xf3\x2e\x36\x3e\x26\x64\x65", b);
}

/* mov and xchg between the operands `to` and `from` of a ModRM byte, register numbers with REX. */
static enum insn_kind load_of(unsigned to, unsigned from)
{
	return to == RSP && from != RBP ? INSN_LOAD_SP : INSN_OTHER;
}

static enum insn_kind moves(uint8_t opcode, uint8_t rex, uint8_t modrm)
{
	unsigned reg = (modrm >> 3 & 7) | (rex & REX_R ? 8 : 0);
	unsigned rm = modrm >> 6 == 3 ? (modrm & 7) | (rex & REX_B ? 8 : 0) : 16; /* 16: memory */

	if (!(rex & REX_W))
		return INSN_OTHER;
	if (opcode == 0x8b)
		return load_of(reg, rm);
	if (opcode == 0x89)
		return load_of(rm, reg);
	return reg == RSP || rm == RSP ? INSN_LOAD_SP : INSN_OTHER; /* xchg */
}

enum insn_kind insn_kind_of(const uint8_t *code, size_t len)
{
	static const uint8_t next[4];
	uint8_t rex = 0, op[6] = {0};
	size_t i = 0;

	while (i < len && is_prefix(code[i]))
		i++;
	if (i < len && code[i] >> 4 == 4)
		rex = code[i++];
	memcpy(op, code + i, len - i < sizeof op ? len - i : sizeof op);
	switch (op[0]) {
	case 0xe8:
		return memcmp(op + 1, next, 4) ? INSN_CALL : INSN_OTHER;
	case 0xff:
		return (op[1] >> 3 & 7) == 2 ? INSN_CALL : (op[1] >> 3 & 7) == 4 ? INSN_JUMP : INSN_OTHER;
	case 0xc2:
	case 0xc3:
		return INSN_RET;
	case 0x0f:
		return op[1] == 0x05 ? INSN_SYSCALL : INSN_OTHER;
	case 0x58 ... 0x5f:
		return op[0] == 0x58 + RSP && !(rex & REX_B) ? INSN_LOAD_SP : INSN_POP;
	case 0x8f:
		return (op[1] >> 3 & 7) == 0 ? INSN_POP : INSN_OTHER; /* else an XOP prefix */
	case 0x94:
		return rex & REX_W && !(rex & REX_B) ? INSN_LOAD_SP : INSN_OTHER;
	case 0x87:
	case 0x89:
	case 0x8b:
		return moves(op[0], rex, op[1]);
	default:
		return INSN_OTHER;
	}
}
