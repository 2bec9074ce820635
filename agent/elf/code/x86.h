// SPDX-License-Identifier: Apache-2.0
/*
 * One x86-64 instruction: its length, and what it does to the stack pointer, to copies of it and to general
 * registers. Intel SDM volume 2, chapter 2 (formats, VEX, EVEX) and appendix A (opcode maps); AMD APM volume
 * 6 for XOP. Rank 1, private to elf/.
 */
#ifndef PROFLET_ELF_X86_H
#define PROFLET_ELF_X86_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Registers by the numbers of the encoding: the DWARF numbers differ. */
enum { X86_AX, X86_CX, X86_DX, X86_BX, X86_SP, X86_BP, X86_SI, X86_DI, X86_REGS = 16, X86_NO_REG = 0xff };

#define X86_MAX_BYTES 15 /* of an instruction */

enum x86_op {
	X86_OTHER,
	X86_PUSH,  /* reg, X86_NO_REG for anything else of eight bytes */
	X86_POP,   /* the same */
	X86_ADD,   /* reg += disp, 64 bits */
	X86_AND,   /* reg &= disp, 64 bits */
	X86_MOVE,  /* reg = base, 64 bits */
	X86_LEA,   /* reg = base + disp, 64 bits */
	X86_LOAD,  /* reg = *(base + disp), 64 bits */
	X86_STORE, /* *(base + disp) = reg, 64 bits */
	X86_LEAVE,
	X86_RETURN,	   /* also with an operand */
	X86_JUMP,	   /* disp: from the end of the instruction */
	X86_BRANCH,	   /* conditional, the same */
	X86_CALL,	   /* the same */
	X86_CALL_FAR_AWAY, /* call through a register or memory, system call */
	X86_JUMP_FAR_AWAY, /* jump through a register or memory */
	X86_TRAP,	   /* does not go on: ud2, hlt, int3 */
	X86_NOP,
};

struct x86_insn {
	uint8_t len; /* bytes, 0: none that is known here */
	uint8_t op;  /* enum x86_op */
	uint8_t reg, base;
	int32_t disp;
	uint16_t writes; /* general registers whose contents change, `reg` of the above included; not rsp
			    where the op says how it changes */
};

/* Decodes the instruction at `code`, of which `n` bytes are there. */
struct x86_insn x86_decode(const uint8_t *code, size_t n);
/* The first offset from `at` on that holds no padding: nop of any length, int3, zeros. */
uint32_t x86_padding(const uint8_t *code, uint32_t n, uint32_t at);
/* The same for nops only, which may be executed. */
uint32_t x86_nops(const uint8_t *code, uint32_t n);
/* Bytes of the trampoline out of a signal handler that begins here (rt_sigreturn, which does not come back);
 * 0: none does. */
unsigned x86_sigreturn(const uint8_t *code, size_t n);

#endif
