// SPDX-License-Identifier: Apache-2.0
/*
 * Decodes A64 instructions, as far as they make and remove stack frames or change where execution goes on
 * (Arm Architecture Reference Manual, C4). Rank 1, private to elf/.
 */
#ifndef PROFLET_ELF_A64_H
#define PROFLET_ELF_A64_H

#include <stdbool.h>
#include <stdint.h>

#define A64_BYTES 4u	     /* of an instruction */
#define A64_FP 29	     /* x29 */
#define A64_LR 30	     /* x30 */
#define A64_SP 31	     /* where an instruction has the stack pointer; else 31 is the zero register */
#define A64_NONE 32	     /* no register */
#define A64_FILL 0xccccccccu /* no instruction: V8 has it between its functions */

enum a64_op {
	A64_OTHER,
	A64_NOP,
	A64_ENTRY, /* paciasp, pacibsp, bti c: only functions begin so */
	A64_STORE, /* reg, and reg2 unless that is A64_NONE, to base + disp and the next word; 64 bits each */
	A64_LOAD,  /* the reverse */
	A64_ADD,   /* reg = base + disp */
	A64_ADD_REG,  /* reg = base + disp * reg2; disp is 1 or -1 */
	A64_CONSTANT, /* reg = disp */
	A64_INSERT,   /* the upper half of reg's low 32 bits = that of disp */
	A64_CALL,     /* to disp from here */
	A64_CALL_REG, /* to where a register says */
	A64_JUMP,     /* to disp from here */
	A64_JUMP_REG, /* to where `base` says */
	A64_BRANCH,   /* to disp from here, or goes on */
	A64_RETURN,
	A64_TRAP,	/* does not go on: udf, brk, hlt */
	A64_SYSTEM_CALL /* svc */
};

struct a64_insn {
	uint8_t op;	   /* enum a64_op */
	uint8_t reg, reg2; /* A64_NONE if there is none */
	uint8_t base;
	/* of loads and stores: base += writeback, before the access with `pre`, else behind it */
	int32_t writeback;
	bool pre;
	int32_t disp;
	uint32_t writes; /* registers that get other values, by bit; bit A64_SP is the stack pointer's */
};

struct a64_insn a64_decode(uint32_t word);
/* The addresses that pairs of adrp and another instruction make. Zero it before the first instruction. */
struct a64_pages {
	uint64_t page[A64_NONE]; /* by register: what the last adrp has put there; 0: it has another value */
};

/*
 * To be called for one instruction after the other. The address base + disp of an A64_ADD or A64_LOAD whose
 * base has come from an adrp; 0: it is none.
 */
uint64_t a64_address(struct a64_pages *p, uint32_t word, uint64_t va, const struct a64_insn *insn);
/* Whether the words are mov x8, #139; svc #0: a signal handler returns to them. */
bool a64_is_sigreturn(uint32_t first, uint32_t second);

#endif
