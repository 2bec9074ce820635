// SPDX-License-Identifier: Apache-2.0
/*
 * Tracks the canonical frame address (CFA) through the instructions of a function from its entry: which
 * registers, and which words on the stack, differ from it by a known number, and where the caller's frame
 * pointer is saved. Rank 1, private to elf/.
 */
#ifndef PROFLET_ELF_FLOW_H
#define PROFLET_ELF_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/elf/cfi/rule.h"
#include "agent/elf/code/x86.h"

/* The word at register + at, plus `add`, is the CFA. */
struct flow_slot {
	int32_t valid, at, add;
};

/* The word at register + at is the caller's rbp. */
struct flow_saved {
	int32_t valid, at;
};

#define FLOW_RETURN_AT (-8) /* the return address, from the CFA */
#define FLOW_FP_LOST 1	    /* values of fp_at that are no offsets */
#define FLOW_FP_SAVED 2	    /* fp_sp or fp_bp says where */

/* States are compared as bytes, so fields that are not valid are zero. */
struct flow_state {
	int32_t reg[X86_REGS];	 /* CFA - register, if its bit in `known` is set */
	struct flow_slot sp, bp; /* relative to rsp, to rbp */
	/* the caller's rbp is saved at CFA + fp_at; 0: it is in rbp; or FLOW_FP_* */
	int32_t fp_at;
	struct flow_saved fp_sp, fp_bp; /* relative to rsp, to rbp; for FLOW_FP_SAVED */
	int32_t apart;			/* rsp - rbp, if `linked` */
	uint16_t known, linked;
	/* the return address was popped; into this register, as in `known`; 0: it has another value */
	uint16_t taken, taken_to;
	uint32_t guessed; /* the whole state: what it leads to must be checked */
};

/*
 * The state at a function's first instruction: the return address is on top of the stack, and rbp is the
 * caller's.
 */
struct flow_state flow_entry(void);
/*
 * The same of a function that others jump to, to end with it: it has their frame, by its frame record. It is
 * one when it gives up a record in a state like this, in which it has made none.
 */
struct flow_state flow_entry_inside(void);
bool flow_gives_up_others(const struct flow_state *s, const struct x86_insn *insn);
/* Updates the state for the instruction that follows this one. False: the CFA is lost. */
bool flow_step(struct flow_state *s, const struct x86_insn *insn);
/* True when flow_step would not change the state, as for most instructions. */
static inline bool flow_ignores(const struct flow_state *s, const struct x86_insn *insn)
{
	const uint32_t relevant = s->known | s->taken_to | 1u << X86_SP | 1u << X86_BP;

	if (insn->writes & relevant)
		return false;
	switch (insn->op) {
	case X86_OTHER:
	case X86_NOP:
	case X86_BRANCH:
	case X86_ADDRESS:
	case X86_CONSTANT:
	case X86_COMPARE:
	case X86_TABLE_ENTRY:
		return true;
	case X86_MOVE:
	case X86_LEA:
		return !(1u << insn->base & relevant) && !(1u << insn->reg & relevant);
	case X86_LOAD:
		return insn->base != X86_SP && insn->base != X86_BP;
	case X86_STORE:
		return insn->base >= X86_REGS || !(1u << insn->base & relevant) ||
		       (!s->sp.valid && !s->bp.valid && !(1u << insn->reg & relevant) &&
			insn->disp - s->reg[insn->base] != FLOW_RETURN_AT);
	default:
		return false;
	}
}
/* True when the stack is as at entry, so that a return or a tail call may follow. */
bool flow_at_entry(const struct flow_state *s);
/*
 * Where two paths meet, reduces `s` to what is true on both; *ret_changed: `s` has changed. False: the states
 * contradict each other.
 */
bool flow_meet(struct flow_state *s, const struct flow_state *other, bool *ret_changed);
struct elf_rule flow_rule(const struct flow_state *s);

#endif
