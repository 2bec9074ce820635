// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/code/flow_back.h"

#include <string.h>

#define WORD 8
#define FRAME_MAX 4096 /* of what is given up in so few instructions */

struct flow_back flow_back_exit(bool guessed)
{
	return (struct flow_back){.reg = X86_NO_REG, .guessed = guessed};
}

bool flow_back_same(const struct flow_back *a, const struct flow_back *b)
{
	return a->reg == b->reg && a->at == b->at;
}

static bool on_stack(const struct flow_back *b)
{
	return b->reg == X86_NO_REG;
}

/* Whether a word there has bytes of the return address. */
static bool overlaps(const struct flow_back *b, int32_t at)
{
	return on_stack(b) && at > b->at - WORD && at < b->at + WORD;
}

/* The word there is what the register `reg` has (X86_NO_REG: something else). */
static bool was_stored(struct flow_back *b, uint8_t reg)
{
	if (reg >= X86_REGS || reg == X86_SP || reg == X86_BP)
		return false;
	*b = (struct flow_back){.reg = reg, .guessed = b->guessed};
	return true;
}

static bool back_push(struct flow_back *b, uint8_t reg)
{
	if (on_stack(b) && b->at == 0)
		return was_stored(b, reg);
	b->at -= on_stack(b) ? WORD : 0;
	return true;
}

static bool back_pop(struct flow_back *b, uint8_t reg)
{
	if (reg == X86_SP || reg == X86_BP)
		return false;
	if (!on_stack(b) && b->reg == reg)
		*b = (struct flow_back){.reg = X86_NO_REG, .guessed = b->guessed};
	else
		b->at += on_stack(b) ? WORD : 0;
	return true;
}

static bool back_load(struct flow_back *b, const struct x86_insn *i)
{
	if (on_stack(b) || b->reg != i->reg)
		return true;
	*b = (struct flow_back){.reg = X86_NO_REG, .guessed = b->guessed, .at = i->disp};
	return i->base == X86_SP;
}

/* rsp, or another register, becomes base + disp. */
static bool back_copy(struct flow_back *b, const struct x86_insn *i, uint8_t base, int32_t disp)
{
	if (i->reg == X86_SP) {
		if (base != X86_SP || !on_stack(b))
			return false;
		b->at += disp;
		return true;
	}
	if (on_stack(b) || b->reg != i->reg)
		return true;
	b->reg = base;
	return disp == 0 && base < X86_REGS && base != X86_SP && base != X86_BP;
}

static bool step(struct flow_back *b, const struct x86_insn *i)
{
	switch (i->op) {
	case X86_PUSH:
		return back_push(b, i->reg);
	case X86_POP:
		return back_pop(b, i->reg);
	case X86_ADD:
		return back_copy(b, i, i->reg, i->disp);
	case X86_LEA:
	case X86_MOVE:
		return back_copy(b, i, i->base, i->op == X86_LEA ? i->disp : 0);
	case X86_LOAD:
		return back_load(b, i);
	case X86_STORE:
		if (i->base != X86_SP || !overlaps(b, i->disp))
			return true;
		return i->disp == b->at && was_stored(b, i->reg);
	case X86_OTHER:
	case X86_NOP:
	case X86_AND:
	case X86_ADDRESS:
	case X86_CONSTANT:
	case X86_COMPARE:
	case X86_TABLE_ENTRY:
		return on_stack(b) || !(i->writes >> b->reg & 1);
	default: /* what follows need not be the next instruction, or the stack may be another */
		return false;
	}
}

/* Whether it changes rsp in a way that does not lead back, or rbp: whose that was is not known. */
static bool is_obscure(const struct x86_insn *i)
{
	const bool known = i->op == X86_ADD || i->op == X86_LEA || i->op == X86_PUSH || i->op == X86_POP;
	const bool named = i->op == X86_LOAD || i->op == X86_MOVE || i->op == X86_AND;

	return i->writes & 1u << X86_BP || (i->writes & 1u << X86_SP && !known) ||
	       (named && i->reg == X86_SP);
}

static bool is_far(const struct x86_insn *i)
{
	const bool operand = i->op == X86_ADD || i->op == X86_LEA || i->op == X86_LOAD || i->op == X86_STORE;

	return operand && (i->disp < -FRAME_MAX || i->disp > FRAME_MAX);
}

bool flow_back_step(struct flow_back *b, const struct x86_insn *insn)
{
	if (is_obscure(insn))
		return false;
	if (is_far(insn)) /* of no frame */
		return insn->reg != X86_SP && (on_stack(b) || !(insn->writes >> b->reg & 1));
	/* below rsp, a signal handler may overwrite it */
	return step(b, insn) && b->at >= 0 && b->at <= FRAME_MAX && b->at % WORD == 0;
}

struct flow_state flow_back_state(const struct flow_back *b)
{
	struct flow_state s;

	memset(&s, 0, sizeof s);
	s.known = 1u << X86_SP;
	s.guessed = b->guessed;
	if (on_stack(b)) {
		s.reg[X86_SP] = b->at + WORD;
	} else {
		s.taken = 1;
		s.taken_to = (uint16_t)(1u << b->reg);
	}
	return s;
}
