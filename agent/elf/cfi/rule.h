// SPDX-License-Identifier: Apache-2.0
/*
 * The unwind rule of one row: how to find the CFA, the caller's frame pointer and the return address, as the
 * call-frame information says it. Independent of the architecture and not packed; unwind/ packs it for the
 * kernel. Registers have the DWARF numbers of the file's architecture (x86-64: 6 rbp, 7 rsp, 9 r9, 16 RA;
 * aarch64: 29 fp, 30 lr, 31 sp). Rank 1.
 */
#ifndef PROFLET_ELF_RULE_H
#define PROFLET_ELF_RULE_H

#include <stdint.h>

/*
 * If the caller's stack pointer is not the CFA (longjmp, setcontext), the rule is rewritten so that its CFA
 * is the caller's stack pointer, and fp and ra do not refer to it.
 *
 * Append-only. `reg`, `off`, `add` are the cfa_* fields of struct elf_rule.
 */
enum cfa_kind {
	CFA_REG_OFF,	 /* reg + off */
	CFA_DEREF_REG,	 /* *(reg + off) + add */
	CFA_PLT,	 /* sp + 8 + ((ip & 15) >= off ? 8 : 0): the lazy-binding PLT expression */
	CFA_DEREF_SP_R9, /* *(sp + r9 * 8 + off) + add */
	CFA_SIGNAL,	 /* signal frame that the kernel made at sp (rt_sigframe): it holds all registers */
	CFA_UNDEFINED,	 /* RA undefined: this is the outermost frame */
	CFA_NONE,	 /* no call-frame information covers this range; off: enum no_rule */
	CFA_UNSUPPORTED, /* an expression that has none of the forms above */
	/*
	 * reg + off, where reg is the frame pointer: as CFA_REG_OFF, but the CFA may be on another stack,
	 * even at a lower address. With an `add` of 1 the frame record is the caller's, which is omitted.
	 */
	CFA_SWITCH,
	/*
	 * the frame of a method that HotSpot interprets, by its frame record; off: to its bytecode
	 * instruction
	 */
	CFA_INTERPRETED,
	/*
	 * *(p + 88) + add, p the address of an Erlang process's structure: in `reg` in the innermost frame;
	 * in another, the C function that was called has saved it at sp + off. 0: p must be searched for,
	 * and `fp` says how this function's frame differs from another's: the frame pointer is the address of
	 * its frame record, which is at CFA + fp.off (REG_CFA_OFF); or its return address follows a call of
	 * what begins fp.off bytes before this instruction (REG_SAME; 0: where it begins is not known)
	 */
	CFA_KEPT,
	/* reg + off + 0, 16, 32 or 48: the stack was aligned to 64; one of them has a return address */
	CFA_ALIGNED,
	/*
	 * HotSpot's interpreter enters a method, whose frame does not stand yet, in the innermost frame: the
	 * return address is in a register (ra), or at reg + off, reg being the stack pointer, or the frame
	 * pointer if that has the frame record already
	 */
	CFA_ENTERED,
};

/* What an unwinder does at a CFA_NONE. */
enum no_rule {
	NO_RULE_FRAME_POINTER, /* it may step by the frame pointer */
	NO_RULE_PENDING,       /* the code was not looked at */
	NO_RULE_REFUSED,       /* the code was looked at, and how its frames look is not known */
};

enum reg_rule_kind {
	REG_SAME,	/* unchanged; also if there is no rule for the frame pointer */
	REG_CFA_OFF,	/* saved at CFA + off */
	REG_UNDEFINED,	/* not recoverable */
	REG_DEREF_REG,	/* saved at reg + off (DW_CFA_expression) */
	REG_REGISTER,	/* in register `reg` */
	REG_UNSUPPORTED /* any other expression */
};

/* The caller was interrupted, it did not call: the return address is the next instruction itself. */
#define RULE_INTERRUPTS 1u
/* The rule may be wrong: a return address that it leads to must be checked. */
#define RULE_CHECKED 2u
/* The code is a method that HotSpot has compiled: a walk can find out which one it is. */
#define RULE_COMPILED 4u
#define RULE_NO_REG 0xff /* cfa_reg of a CFA_UNDEFINED whose CFA is an expression */

struct elf_reg_rule {
	uint8_t kind; /* enum reg_rule_kind */
	uint8_t reg;
	uint16_t zero; /* explicit padding: rules are hashed and compared as bytes */
	int32_t off;   /* bytes */
};

struct elf_rule {
	uint8_t cfa_kind; /* enum cfa_kind */
	uint8_t cfa_reg;
	uint8_t flags; /* RULE_* */
	uint8_t zero;
	int32_t cfa_off, cfa_add; /* bytes */
	struct elf_reg_rule fp;	  /* x86-64 rbp, aarch64 x29 */
	struct elf_reg_rule ra;	  /* return-address column; REG_UNDEFINED only together with CFA_UNDEFINED */
};

_Static_assert(sizeof(struct elf_rule) == 28, "no padding");

#endif
