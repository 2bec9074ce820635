// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/code/a64_flow.h"

static bool writes(const struct a64_insn *insn, unsigned reg)
{
	return insn->writes >> reg & 1;
}

/* The address base + disp as an offset from the CFA. False: it is not known. */
static bool offset_of(const struct a64_state *s, unsigned base, int32_t disp, int32_t *ret)
{
	if (base == A64_SP && s->sp_known)
		return !__builtin_sub_overflow(disp, s->sp, ret);
	if (base == A64_FP && s->fp_known)
		return !__builtin_sub_overflow(disp, s->fp, ret);
	return false;
}

static void set_sp(struct a64_state *s, bool known, int32_t offset)
{
	s->sp_known = known;
	s->sp = known ? -offset : 0;
}

static void set_fp(struct a64_state *s, bool known, int32_t offset)
{
	if (s->fp_at == A64_IN_REGISTER)
		s->fp_at = A64_LOST;
	s->fp_known = known;
	s->fp = known ? -offset : 0;
}

static void lose_ra(struct a64_state *s)
{
	if (s->ra_at == A64_IN_REGISTER)
		s->ra_at = A64_LOST;
}

/* What is stored at this offset from the CFA replaces what was saved there. */
static void store(struct a64_state *s, unsigned reg, int32_t at)
{
	if (at >= 0) /* in the caller's frame: arguments */
		return;
	if (at == s->fp_at)
		s->fp_at = A64_LOST;
	if (at == s->ra_at)
		s->ra_at = A64_LOST;
	if (at % 8)
		return;
	if (reg == A64_FP && s->fp_at == A64_IN_REGISTER)
		s->fp_at = at;
	if (reg == A64_LR && s->ra_at == A64_IN_REGISTER) {
		s->ra_at = at;
		s->guess = 0; /* it is a function that does so */
	}
}

static void load(struct a64_state *s, unsigned reg, bool known, int32_t at)
{
	if (reg == A64_FP && known && at < 0 && at == s->fp_at) {
		s->fp_at = A64_IN_REGISTER;
		s->fp = s->fp_known = 0;
	} else if (reg == A64_FP) {
		set_fp(s, false, 0);
	}
	if (reg == A64_LR && known && at < 0 && at == s->ra_at)
		s->ra_at = A64_IN_REGISTER;
	else if (reg == A64_LR)
		lose_ra(s);
}

static void access(struct a64_state *s, const struct a64_insn *insn)
{
	const uint8_t regs[] = {insn->reg, insn->reg2};
	const int32_t base = insn->disp + (insn->pre ? insn->writeback : 0);
	const struct a64_state before = *s;
	int32_t at = 0;

	for (int i = 0; i < 2; i++) {
		const bool known = offset_of(&before, insn->base, base + i * 8, &at);

		if (insn->op == A64_STORE && known && regs[i] != A64_NONE)
			store(s, regs[i], at);
		else if (insn->op == A64_LOAD)
			load(s, regs[i], known, at);
	}
	if (insn->writeback && insn->base == A64_SP)
		set_sp(s, before.sp_known, insn->writeback - before.sp);
	else if (insn->writeback && insn->base == A64_FP)
		set_fp(s, before.fp_known, insn->writeback - before.fp);
}

static void add(struct a64_state *s, const struct a64_insn *insn)
{
	int32_t at = 0;
	const bool known = offset_of(s, insn->base, insn->disp, &at);

	if (insn->reg == A64_SP)
		set_sp(s, known, at);
	else if (insn->reg == A64_FP)
		set_fp(s, known, at);
	else if (insn->reg == A64_LR)
		lose_ra(s);
}

/*
 * Larger frames than an instruction has bits for are made by a number in a register that calls do not
 * preserve and that has no argument.
 */
static bool may_count(unsigned reg)
{
	return reg > 8 && reg < 18;
}

static void note_constant(struct a64_state *s, const struct a64_insn *insn)
{
	const bool inserted = insn->op == A64_INSERT && insn->reg == s->constant_reg;

	if (insn->op == A64_CONSTANT && may_count(insn->reg)) {
		s->constant_reg = insn->reg;
		s->constant = insn->disp;
	} else if (inserted) {
		s->constant = (s->constant & 0xffff) | insn->disp;
	} else if (s->constant_reg && writes(insn, s->constant_reg)) {
		s->constant_reg = 0;
		s->constant = 0;
	}
}

static void add_constant(struct a64_state *s, const struct a64_insn *insn)
{
	struct a64_insn sum = *insn;

	sum.disp = s->constant * insn->disp;
	add(s, &sum);
}

void a64_step(struct a64_state *s, const struct a64_insn *insn)
{
	note_constant(s, insn);
	if (insn->op == A64_STORE || (insn->op == A64_LOAD && insn->base != A64_NONE)) {
		access(s, insn);
	} else if (insn->op == A64_ADD) {
		add(s, insn);
	} else if (insn->op == A64_ADD_REG && insn->reg2 == s->constant_reg && s->constant_reg) {
		add_constant(s, insn);
	} else {
		if (writes(insn, A64_SP))
			set_sp(s, false, 0);
		if (writes(insn, A64_FP))
			set_fp(s, false, 0);
		if (writes(insn, A64_LR))
			lose_ra(s);
	}
}

void a64_meet(struct a64_state *s, const struct a64_state *other)
{
	if (!s->sp_known || !other->sp_known || s->sp != other->sp)
		s->sp = s->sp_known = 0;
	if (!s->fp_known || !other->fp_known || s->fp != other->fp)
		s->fp = s->fp_known = 0;
	if (s->fp_at != other->fp_at)
		s->fp_at = A64_LOST;
	if (s->ra_at != other->ra_at)
		s->ra_at = A64_LOST;
	s->root &= other->root;
	s->guess |= other->guess;
	if (s->constant_reg != other->constant_reg || s->constant != other->constant)
		s->constant = s->constant_reg = 0;
}

/* REG_SAME in a register, or saved. */
static struct elf_reg_rule saved(int32_t at)
{
	if (at == A64_IN_REGISTER)
		return (struct elf_reg_rule){.kind = REG_SAME};
	if (at == A64_LOST)
		return (struct elf_reg_rule){.kind = REG_UNDEFINED};
	return (struct elf_reg_rule){.kind = REG_CFA_OFF, .off = at};
}

struct elf_rule a64_rule(const struct a64_state *s)
{
	if (s->root)
		return (struct elf_rule){
			.cfa_kind = CFA_UNDEFINED, .cfa_reg = RULE_NO_REG, .ra = {.kind = REG_UNDEFINED}};
	if (s->guess || s->ra_at == A64_LOST || (!s->sp_known && !s->fp_known) || s->sp < 0 || s->fp < 0)
		return (struct elf_rule){.cfa_kind = CFA_NONE, .cfa_off = NO_RULE_REFUSED};
	return (struct elf_rule){.cfa_kind = CFA_REG_OFF,
				 .cfa_reg = s->sp_known ? A64_SP : A64_FP,
				 .cfa_off = s->sp_known ? s->sp : s->fp,
				 .fp = saved(s->fp_at),
				 .ra = saved(s->ra_at)};
}
