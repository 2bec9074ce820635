// SPDX-License-Identifier: Apache-2.0
/*
 * A value on the symbolic stack is either a constant, or
 *	base + index * scale + off
 * or, once dereferenced,
 *	*(base + index * scale + off) + add
 * where base and index are registers. All forms but that of a PLT are such values. The PLT's expression has a
 * comparison and is recognised by its bytes.
 */
#include "agent/elf/cfi/expr.h"

#include <elf.h>

#include "agent/elf/cfi/dwarf_numbers.h"
#include "agent/elf/file/arch.h"

#define STACK_MAX 8
#define NO_REG 0xff
#define BASE_CFA 0xfe /* the CFA, which is on the stack when DW_CFA_expression starts */

struct value {
	uint8_t base, index;
	bool deref;
	uint64_t scale, off, add; /* unsigned, since foreign numbers may wrap around */
};

struct machine_stack {
	struct value at[STACK_MAX];
	unsigned n;
};

static bool push(struct machine_stack *s, struct value v)
{
	if (s->n == STACK_MAX)
		return false;
	s->at[s->n++] = v;
	return true;
}

static bool push_const(struct machine_stack *s, uint64_t n)
{
	return push(s, (struct value){.base = NO_REG, .index = NO_REG, .off = n});
}

static bool push_reg(struct machine_stack *s, uint64_t reg, int64_t off)
{
	return reg < BASE_CFA &&
	       push(s, (struct value){.base = (uint8_t)reg, .index = NO_REG, .off = (uint64_t)off});
}

static bool is_const(const struct value *v)
{
	return v->base == NO_REG && v->index == NO_REG && !v->deref;
}

static void add_const(struct value *v, uint64_t n)
{
	if (v->deref)
		v->add += n;
	else
		v->off += n;
}

/*
 * Computes *a += *b if one is a constant, or if both are addresses that were not dereferenced and have at
 * most one base and one index together.
 */
static bool add_values(struct value *a, const struct value *b)
{
	if (is_const(b)) {
		add_const(a, b->off);
		return true;
	}
	if (is_const(a)) {
		uint64_t n = a->off;

		*a = *b;
		add_const(a, n);
		return true;
	}
	if (a->deref || b->deref || (a->base != NO_REG && b->base != NO_REG) ||
	    (a->index != NO_REG && b->index != NO_REG))
		return false;
	if (a->base == NO_REG)
		a->base = b->base;
	if (a->index == NO_REG) {
		a->index = b->index;
		a->scale = b->scale;
	}
	a->off += b->off;
	return true;
}

/* Multiplies by a constant. A register becomes an index. */
static bool multiply(struct value *v, uint64_t n)
{
	if (is_const(v)) {
		v->off *= n;
		return true;
	}
	if (v->deref || v->base == NO_REG || v->base == BASE_CFA || v->index != NO_REG)
		return false;
	*v = (struct value){.base = NO_REG, .index = v->base, .scale = n, .off = v->off * n};
	return true;
}

static bool binary_op(struct machine_stack *s, uint8_t op)
{
	if (s->n < 2)
		return false;
	struct value b = s->at[--s->n], *a = &s->at[s->n - 1];

	switch (op) {
	case DW_OP_plus:
		return add_values(a, &b);
	case DW_OP_minus:
		if (is_const(&b))
			add_const(a, -b.off);
		return is_const(&b);
	case DW_OP_mul:
		return is_const(&b) && multiply(a, b.off);
	default: /* DW_OP_shl */
		return is_const(&b) && b.off < 64 && multiply(a, 1ull << b.off);
	}
}

static bool deref(struct machine_stack *s)
{
	struct value *v = s->n ? &s->at[s->n - 1] : NULL;

	if (!v || v->deref || v->base == NO_REG)
		return false;
	v->deref = true;
	return true;
}

static bool push_constant_op(struct machine_stack *s, struct cursor *c, uint8_t op)
{
	switch (op) {
	case DW_OP_const1u:
		return push_const(s, cursor_u8(c));
	case DW_OP_const1s:
		return push_const(s, (uint64_t)(int8_t)cursor_u8(c));
	case DW_OP_const2u:
		return push_const(s, cursor_u16(c));
	case DW_OP_const2s:
		return push_const(s, (uint64_t)(int16_t)cursor_u16(c));
	case DW_OP_const4u:
		return push_const(s, cursor_u32(c));
	case DW_OP_const4s:
		return push_const(s, (uint64_t)(int32_t)cursor_u32(c));
	case DW_OP_const8u:
	case DW_OP_const8s:
		return push_const(s, cursor_u64(c));
	case DW_OP_constu:
		return push_const(s, cursor_uleb(c));
	default: /* DW_OP_consts */
		return push_const(s, (uint64_t)cursor_sleb(c));
	}
}

static bool step(struct machine_stack *s, struct cursor *c)
{
	uint8_t op = cursor_u8(c);
	uint64_t reg;

	if (op >= DW_OP_lit0 && op <= DW_OP_lit31)
		return push_const(s, op - DW_OP_lit0);
	if (op >= DW_OP_breg0 && op <= DW_OP_breg31)
		return push_reg(s, op - DW_OP_breg0, cursor_sleb(c));
	if (op >= DW_OP_const1u && op <= DW_OP_consts)
		return push_constant_op(s, c, op);
	switch (op) {
	case DW_OP_bregx:
		reg = cursor_uleb(c);
		return push_reg(s, reg, cursor_sleb(c));
	case DW_OP_plus_uconst:
		if (s->n)
			add_const(&s->at[s->n - 1], cursor_uleb(c));
		return s->n > 0;
	case DW_OP_plus:
	case DW_OP_minus:
	case DW_OP_mul:
	case DW_OP_shl:
		return binary_op(s, op);
	case DW_OP_deref:
		return deref(s);
	case DW_OP_nop:
		return true;
	default:
		return false;
	}
}

static bool evaluate(struct machine_stack *s, struct cursor expr, struct value *ret)
{
	while (cursor_left(&expr) > 0) {
		if (!step(s, &expr) || expr.bad)
			return false;
	}
	if (s->n == 0)
		return false;
	*ret = s->at[s->n - 1];
	return true;
}

static bool fits(uint64_t n)
{
	return (int64_t)n >= INT32_MIN && (int64_t)n <= INT32_MAX;
}

/*
 * sp + 8 + ((rip & 15) >= n ? 8 : 0): the rule of binutils for a PLT slot of 16 bytes whose push ends after n
 * bytes.
 */
static bool is_plt(struct cursor expr, struct elf_rule *rule)
{
	static const uint8_t shape[] = {DW_OP_breg0 + X86_RSP,
					8,
					DW_OP_breg0 + X86_RIP,
					0,
					DW_OP_lit0 + 15,
					DW_OP_and,
					0,
					DW_OP_ge,
					DW_OP_lit0 + 3,
					DW_OP_shl,
					DW_OP_plus};
	enum { LITERAL = 6 };

	if (cursor_left(&expr) != sizeof(shape) || memcmp(expr.pos, shape, LITERAL) != 0 ||
	    memcmp(expr.pos + LITERAL + 1, shape + LITERAL + 1, sizeof(shape) - LITERAL - 1) != 0)
		return false;
	uint8_t literal = expr.pos[LITERAL];
	if (literal < DW_OP_lit0 || literal > DW_OP_lit0 + 15)
		return false;
	rule->cfa_kind = CFA_PLT;
	rule->cfa_reg = X86_RSP;
	rule->cfa_off = literal - DW_OP_lit0;
	rule->cfa_add = 0;
	return true;
}

static enum cfa_kind cfa_shape(uint16_t machine, struct value *v)
{
	if (v->base == NO_REG || v->base == BASE_CFA || !fits(v->off) || !fits(v->add))
		return CFA_UNSUPPORTED;
	if (v->index == NO_REG)
		return v->deref ? CFA_DEREF_REG : CFA_REG_OFF;
	if (v->deref && machine == EM_X86_64 && v->base == X86_RSP && v->index == X86_R9 && v->scale == 8)
		return CFA_DEREF_SP_R9;
	return CFA_UNSUPPORTED;
}

void expr_cfa(uint16_t machine, struct cursor expr, struct elf_rule *rule)
{
	struct machine_stack s = {.n = 0};
	struct value v;

	if (machine == EM_X86_64 && is_plt(expr, rule))
		return;
	rule->cfa_kind = evaluate(&s, expr, &v) ? cfa_shape(machine, &v) : CFA_UNSUPPORTED;
	rule->cfa_reg = 0;
	rule->cfa_off = rule->cfa_add = 0;
	if (rule->cfa_kind == CFA_UNSUPPORTED)
		return;
	rule->cfa_reg = v.base;
	rule->cfa_off = (int32_t)v.off;
	rule->cfa_add = (int32_t)v.add;
}

/*
 * Evaluates with the CFA on the stack (DWARF 5, 6.4.2.3). False unless the result is base + off, dereferenced
 * or not.
 */
static bool evaluate_reg(struct cursor expr, struct value *ret)
{
	struct machine_stack s = {.n = 0};

	push(&s, (struct value){.base = BASE_CFA, .index = NO_REG});
	return evaluate(&s, expr, ret) && ret->base != NO_REG && ret->index == NO_REG && ret->add == 0 &&
	       fits(ret->off);
}

struct elf_reg_rule expr_saved_at(struct cursor expr)
{
	struct value v;

	if (!evaluate_reg(expr, &v) || v.deref)
		return (struct elf_reg_rule){.kind = REG_UNSUPPORTED};
	if (v.base == BASE_CFA)
		return (struct elf_reg_rule){.kind = REG_CFA_OFF, .off = (int32_t)v.off};
	return (struct elf_reg_rule){.kind = REG_DEREF_REG, .reg = v.base, .off = (int32_t)v.off};
}

struct elf_reg_rule expr_value(struct cursor expr)
{
	struct value v;

	/*
	 * "saved at base + off" is the value *(base + off)
	 */
	if (!evaluate_reg(expr, &v) || (!v.deref && v.base == BASE_CFA))
		return (struct elf_reg_rule){.kind = REG_UNSUPPORTED};
	if (!v.deref)
		return (struct elf_reg_rule){.kind = REG_REGISTER, .reg = v.base, .off = (int32_t)v.off};
	if (v.base == BASE_CFA)
		return (struct elf_reg_rule){.kind = REG_CFA_OFF, .off = (int32_t)v.off};
	return (struct elf_reg_rule){.kind = REG_DEREF_REG, .reg = v.base, .off = (int32_t)v.off};
}
