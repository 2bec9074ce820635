// SPDX-License-Identifier: Apache-2.0
#include <errno.h>

#include "agent/elf/cfi/evaluate.h"
#include "agent/elf/cfi/frame_rule.h"

struct frame_step {
	const struct frame_rule *rule;
	const struct frame_memory *memory;
	const struct frame_registers *regs;
	uint64_t cfa;
};

static int expression(const struct frame_step *s, const struct frame_location *l, const uint64_t *initial,
		      uint64_t *ret)
{
	return evaluate(s->regs, s->memory, cursor_of(s->rule->bytes + l->off, l->len), initial, ret);
}

static int word(const struct frame_step *s, uint64_t address, uint64_t *ret)
{
	return s->memory->read(s->memory->data, ret, sizeof *ret, address) < 0 ? -EFAULT : 0;
}

/* The value that register `reg` has in the caller. -ENODATA: unknown. */
static int locate(const struct frame_step *s, unsigned reg, uint64_t *ret)
{
	const struct frame_location *l = &s->rule->regs[reg];
	uint64_t address;
	int r;

	switch ((enum frame_location_kind)l->kind) {
	case LOCATION_UNSAID:
		if (reg == s->rule->sp_reg) {
			*ret = s->cfa;
			return 0;
		}
		if (!(s->rule->preserved >> reg & 1))
			return -ENODATA;
		/* fall through */
	case LOCATION_SAME:
		*ret = s->regs->value[reg];
		return s->regs->known >> reg & 1 ? 0 : -ENODATA;
	case LOCATION_UNDEFINED:
		return -ENODATA;
	case LOCATION_AT_CFA:
		return word(s, s->cfa + (uint64_t)l->off, ret);
	case LOCATION_CFA:
		*ret = s->cfa + (uint64_t)l->off;
		return 0;
	case LOCATION_REGISTER:
		*ret = s->regs->value[l->reg] + (uint64_t)l->off;
		return s->regs->known >> l->reg & 1 ? 0 : -ENODATA;
	case LOCATION_AT_EXPR:
		r = expression(s, l, &s->cfa, &address);
		return r < 0 ? r : word(s, address, ret);
	case LOCATION_EXPR:
		return expression(s, l, &s->cfa, ret);
	case LOCATION_UNSUPPORTED:
		break;
	}
	return -ENOTSUP;
}

static int find_cfa(struct frame_step *s)
{
	const struct frame_location *l = &s->rule->cfa;

	if (l->kind == LOCATION_EXPR)
		return expression(s, l, NULL, &s->cfa);
	if (l->kind != LOCATION_REGISTER)
		return -ENOTSUP;
	s->cfa = s->regs->value[l->reg] + (uint64_t)l->off;
	return s->regs->known >> l->reg & 1 ? 0 : -ENODATA;
}

int frame_rule_step(const struct frame_rule *rule, const struct frame_memory *memory,
		    struct frame_registers *regs)
{
	struct frame_step s = {.rule = rule, .memory = memory, .regs = regs};
	struct frame_registers caller = {.known = 0};
	int r;

	if (rule->regs[rule->ra_reg].kind == LOCATION_UNDEFINED)
		return 1;
	r = find_cfa(&s);
	if (r < 0)
		return r;
	for (unsigned i = 0; i < FRAME_REGISTERS; i++) {
		r = locate(&s, i, &caller.value[i]);
		if (r == 0)
			caller.known |= 1u << i;
		else if (i == rule->ra_reg || i == rule->sp_reg)
			return r;
	}
	*regs = caller;
	return 0;
}
