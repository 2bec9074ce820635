// SPDX-License-Identifier: Apache-2.0
/* An instruction's parts, between those who take it apart (x86.c) and those who say what it does
 * (x86_effect.c). Rank 1, private to x86*.c. */
#ifndef PROFLET_ELF_X86_INTERNAL_H
#define PROFLET_ELF_X86_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Opcode maps: legacy, and those of VEX, EVEX and XOP by the same numbers. */
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
	uint8_t map, opcode, rex; /* rex: W R X B as in the prefix, also from the longer ones */
	bool vector;		  /* VEX, EVEX, XOP */
	bool operand16, address32, rep, repne;
	uint8_t vvvv;
	/* of ModRM */
	bool has_modrm, rip, index;
	uint8_t mod, reg, rm, base;
	int32_t disp;
	uint64_t imm;
	bool bad;
};

struct x86_insn;

/* Fills all but the length, which becomes 0 for what is not followed. */
void x86_effect(const struct x86_decoder *d, struct x86_insn *i);

#endif
