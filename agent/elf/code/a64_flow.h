// SPDX-License-Identifier: Apache-2.0
/*
 * Tracks the canonical frame address (CFA) through A64 instructions: how far the stack pointer and x29 are
 * from it, and where the caller's x29 and the return address are. Rank 1, private to elf/.
 */
#ifndef PROFLET_ELF_A64_FLOW_H
#define PROFLET_ELF_A64_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/elf/cfi/rule.h"
#include "agent/elf/code/a64.h"

#define A64_IN_REGISTER 0 /* values of fp_at and ra_at that are no offsets: in x29, in x30 */
#define A64_LOST 1

/* States are compared as bytes, so fields that are not valid are zero. */
struct a64_state {
	int32_t sp, fp;	      /* CFA - sp, CFA - x29, as far as they are known */
	int32_t fp_at, ra_at; /* the caller's x29, the return address: bytes from the CFA, or A64_* */
	uint8_t sp_known, fp_known;
	uint8_t root : 1;     /* the code was not called: the first of a thread */
	uint8_t guess : 1;    /* nothing but that the code is there says that a function began */
	uint8_t constant_reg; /* a register that has the value `constant`; 0: there is none */
	int32_t constant;
};

/* The state at a function's first instruction. */
static inline struct a64_state a64_entry(void)
{
	return (struct a64_state){.sp_known = 1};
}

/* Updates the state for the instruction that follows this one. */
void a64_step(struct a64_state *s, const struct a64_insn *insn);
/* False: a64_step would not change the state, as for most instructions. */
static inline bool a64_changes(const struct a64_state *s, const struct a64_insn *insn)
{
	const uint32_t frame = 1u << A64_FP | 1u << A64_LR | 1u << A64_SP;

	if (insn->writes & (frame | (s->constant_reg ? 1u << s->constant_reg : 0)))
		return true;
	return (insn->op == A64_STORE && (insn->base == A64_SP || insn->base == A64_FP)) ||
	       insn->op == A64_CONSTANT;
}
/* Where two paths meet, reduces `s` to what is true on both. */
void a64_meet(struct a64_state *s, const struct a64_state *other);
/* The rule of a frame in this state; CFA_NONE with NO_RULE_REFUSED if it cannot be stepped. */
struct elf_rule a64_rule(const struct a64_state *s);

#endif
