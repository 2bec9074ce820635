// SPDX-License-Identifier: Apache-2.0
/*
 * Decodes one x86-64 instruction: its length, and its effect on the stack pointer, copies of it, and general
 * registers. Intel SDM volume 2, chapter 2 (formats, VEX, EVEX) and appendix A (opcode maps); AMD APM volume
 * 6 for XOP. Rank 1, private to elf/.
 */
#ifndef PROFLET_ELF_X86_H
#define PROFLET_ELF_X86_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Registers by their number in the encoding. DWARF numbers differ. */
enum {
	X86_AX,
	X86_CX,
	X86_DX,
	X86_BX,
	X86_SP,
	X86_BP,
	X86_SI,
	X86_DI,
	X86_REGS = 16,
	X86_IP = 0xfe, /* as a base: the end of the instruction */
	X86_NO_REG = 0xff
};

#define X86_MAX_BYTES 15 /* of an instruction */

enum x86_op {
	X86_OTHER,
	X86_PUSH,  /* pushes reg; X86_NO_REG: eight other bytes */
	X86_POP,   /* the same */
	X86_ADD,   /* reg += disp, 64 bits */
	X86_AND,   /* reg &= disp, 64 bits */
	X86_MOVE,  /* reg = base, 64 bits */
	X86_LEA,   /* reg = base + disp, 64 bits */
	X86_LOAD,  /* reg = *(base + disp), 64 bits */
	X86_STORE, /* *(base + disp) = reg, 64 bits */
	X86_LEAVE,
	X86_RETURN,	   /* with or without an operand */
	X86_JUMP,	   /* by disp from the end of the instruction */
	X86_BRANCH,	   /* conditional, the same */
	X86_CALL,	   /* the same */
	X86_CALL_FAR_AWAY, /* call through a register or memory, system call */
	/*
	 * Jump through a register or memory. To *(base + disp), or to *(reg * 8 + disp) if there is no base
	 * but `reg`. These two are set for calls, too.
	 */
	X86_JUMP_FAR_AWAY,
	X86_TRAP, /* execution does not continue: ud2, hlt, int3 */
	X86_NOP,
	X86_ADDRESS,	 /* reg = end of the instruction + disp */
	X86_CONSTANT,	 /* reg = disp, a number that may be an address below 2 GiB */
	X86_COMPARE,	 /* flags of something - disp */
	X86_TABLE_ENTRY, /* reg = 32 bits of *(base + index * 4), sign-extended */
};

struct x86_insn {
	uint8_t len; /* bytes; 0: unknown instruction */
	uint8_t op;  /* enum x86_op */
	uint8_t reg, base;
	int32_t disp;
	uint16_t writes; /* general registers whose contents change, including `reg` of the operations above;
			    rsp is not included if the operation says how it changes */
};

/* Decodes the instruction at `code`, where `n` bytes are available. */
void x86_read(struct x86_insn *ret, const uint8_t *code, size_t n);
/*
 * The same. A function that returned the structure in registers would put it together from its fields in
 * memory, which takes the processor longer than the decoding.
 */
static inline struct x86_insn x86_decode(const uint8_t *code, size_t n)
{
	struct x86_insn insn;

	x86_read(&insn, code, n);
	return insn;
}
/* The DWARF number of a register. */
uint8_t x86_dwarf_number(uint8_t reg);
/* The first offset >= `at` that is not padding: nops of any length, int3, zeros. */
uint32_t x86_padding(const uint8_t *code, uint32_t n, uint32_t at);
/* The length of the nops at `code`. Nops, unlike other padding, may be executed. */
uint32_t x86_nops(const uint8_t *code, uint32_t n);
/* Whether one of the usual nops of several bytes ends at `end`. */
bool x86_ends_with_nop(const uint8_t *code, size_t end);
/* Whether the instruction is one with which functions often begin: push, sub rsp, endbr64. */
bool x86_begins_function(const uint8_t *code, size_t n);
/* Whether the code makes a frame record: push rbp; mov rbp, rsp. */
bool x86_makes_record(const uint8_t *code, size_t n);
#define X86_RECORD_BYTES 4u /* of these two instructions */
/*
 * Length of the signal trampoline at `code` (a call of rt_sigreturn, which does not return); 0: there is
 * none.
 */
unsigned x86_sigreturn(const uint8_t *code, size_t n);

#endif
