// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/cfi/evaluate.h"

#include <errno.h>

#include "agent/elf/cfi/dwarf_numbers.h"

struct evaluation {
	const struct frame_registers *regs;
	const struct frame_memory *memory;
	const uint8_t *start; /* of the expression; branches may go backwards */
	struct cursor c;
	uint64_t stack[EVALUATE_STACK_MAX];
	unsigned n;
	int error;
};

static void fail(struct evaluation *e, int error)
{
	if (!e->error)
		e->error = error;
}

static void push(struct evaluation *e, uint64_t value)
{
	if (e->n == EVALUATE_STACK_MAX)
		fail(e, -EINVAL);
	else
		e->stack[e->n++] = value;
}

static uint64_t pop(struct evaluation *e)
{
	if (e->n == 0) {
		fail(e, -EINVAL);
		return 0;
	}
	return e->stack[--e->n];
}

/* Pushes a copy of the value `depth` below the top; 0 is the top itself. */
static void pick(struct evaluation *e, uint64_t depth)
{
	if (depth >= e->n)
		fail(e, -EINVAL);
	else
		push(e, e->stack[e->n - 1 - depth]);
}

/* Moves the top value below the `below` values under it. */
static void rotate(struct evaluation *e, unsigned below)
{
	uint64_t top;

	if (e->n <= below) {
		fail(e, -EINVAL);
		return;
	}
	top = e->stack[e->n - 1];
	for (unsigned i = 0; i < below; i++)
		e->stack[e->n - 1 - i] = e->stack[e->n - 2 - i];
	e->stack[e->n - 1 - below] = top;
}

static void push_register(struct evaluation *e, uint64_t reg, int64_t off)
{
	if (reg >= FRAME_REGISTERS || !(e->regs->known >> reg & 1))
		fail(e, -ENODATA);
	else
		push(e, e->regs->value[reg] + (uint64_t)off);
}

static void dereference(struct evaluation *e, unsigned bytes)
{
	uint64_t address = pop(e), value = 0;

	if (bytes == 0 || bytes > 8 || (bytes & (bytes - 1)))
		fail(e, -EINVAL);
	if (e->error)
		return;
	if (e->memory->read(e->memory->data, &value, bytes, address) < 0)
		fail(e, -EFAULT);
	push(e, value); /* little endian: the high bytes stay 0 */
}

static void branch(struct evaluation *e, bool taken)
{
	int16_t off = (int16_t)cursor_u16(&e->c);

	if (!taken || e->c.bad)
		return;
	if (off < e->start - e->c.pos || off > e->c.end - e->c.pos)
		fail(e, -EINVAL);
	else
		e->c.pos += off;
}

static void push_constant(struct evaluation *e, uint8_t op)
{
	struct cursor *c = &e->c;

	switch (op) {
	case DW_OP_const1u:
		return push(e, cursor_u8(c));
	case DW_OP_const1s:
		return push(e, (uint64_t)(int8_t)cursor_u8(c));
	case DW_OP_const2u:
		return push(e, cursor_u16(c));
	case DW_OP_const2s:
		return push(e, (uint64_t)(int16_t)cursor_u16(c));
	case DW_OP_const4u:
		return push(e, cursor_u32(c));
	case DW_OP_const4s:
		return push(e, (uint64_t)(int32_t)cursor_u32(c));
	case DW_OP_const8u:
	case DW_OP_const8s:
		return push(e, cursor_u64(c));
	case DW_OP_constu:
		return push(e, cursor_uleb(c));
	default: /* DW_OP_consts */
		return push(e, (uint64_t)cursor_sleb(c));
	}
}

static void unary(struct evaluation *e, uint8_t op)
{
	uint64_t a = pop(e);

	switch (op) {
	case DW_OP_abs:
		return push(e, (int64_t)a < 0 ? -a : a);
	case DW_OP_neg:
		return push(e, -a);
	case DW_OP_not:
		return push(e, ~a);
	default: /* DW_OP_plus_uconst */
		return push(e, a + cursor_uleb(&e->c));
	}
}

/* Divides as signed numbers. The two cases that C leaves undefined are handled. */
static uint64_t divide(struct evaluation *e, uint64_t a, uint64_t b)
{
	if (b == 0) {
		fail(e, -EINVAL);
		return 0;
	}
	return b == UINT64_MAX ? -a : (uint64_t)((int64_t)a / (int64_t)b);
}

static uint64_t modulo(struct evaluation *e, uint64_t a, uint64_t b)
{
	if (b == 0)
		fail(e, -EINVAL);
	return b ? a % b : 0;
}

static uint64_t shift_right(int64_t a, uint64_t by)
{
	return (uint64_t)(a >> (by < 63 ? by : 63));
}

static void binary(struct evaluation *e, uint8_t op)
{
	uint64_t b = pop(e), a = pop(e);

	switch (op) {
	case DW_OP_and:
		return push(e, a & b);
	case DW_OP_div:
		return push(e, divide(e, a, b));
	case DW_OP_minus:
		return push(e, a - b);
	case DW_OP_mod:
		return push(e, modulo(e, a, b));
	case DW_OP_mul:
		return push(e, a * b);
	case DW_OP_or:
		return push(e, a | b);
	case DW_OP_plus:
		return push(e, a + b);
	case DW_OP_shl:
		return push(e, b < 64 ? a << b : 0);
	case DW_OP_shr:
		return push(e, b < 64 ? a >> b : 0);
	case DW_OP_shra:
		return push(e, shift_right((int64_t)a, b));
	case DW_OP_xor:
		return push(e, a ^ b);
	case DW_OP_eq:
		return push(e, a == b);
	case DW_OP_ge:
		return push(e, (int64_t)a >= (int64_t)b);
	case DW_OP_gt:
		return push(e, (int64_t)a > (int64_t)b);
	case DW_OP_le:
		return push(e, (int64_t)a <= (int64_t)b);
	case DW_OP_lt:
		return push(e, (int64_t)a < (int64_t)b);
	default: /* DW_OP_ne */
		return push(e, a != b);
	}
}

static void stack_operation(struct evaluation *e, uint8_t op)
{
	switch (op) {
	case DW_OP_dup:
		return pick(e, 0);
	case DW_OP_drop:
		pop(e);
		return;
	case DW_OP_over:
		return pick(e, 1);
	case DW_OP_pick:
		return pick(e, cursor_u8(&e->c));
	case DW_OP_swap:
		return rotate(e, 1);
	default: /* DW_OP_rot */
		return rotate(e, 2);
	}
}

static void other_operation(struct evaluation *e, uint8_t op)
{
	uint64_t reg;

	switch (op) {
	case DW_OP_deref:
		return dereference(e, 8);
	case DW_OP_deref_size:
		return dereference(e, cursor_u8(&e->c));
	case DW_OP_skip:
		return branch(e, true);
	case DW_OP_bra:
		return branch(e, pop(e) != 0);
	case DW_OP_regx: /* a register name stands for the register's value, as in GCC's unwinder */
		return push_register(e, cursor_uleb(&e->c), 0);
	case DW_OP_bregx:
		reg = cursor_uleb(&e->c);
		return push_register(e, reg, cursor_sleb(&e->c));
	case DW_OP_nop:
		return;
	default:
		fail(e, -ENOTSUP);
	}
}

static void step(struct evaluation *e)
{
	uint8_t op = cursor_u8(&e->c);

	switch (op) {
	case DW_OP_lit0 ... DW_OP_lit31:
		return push(e, op - DW_OP_lit0);
	case DW_OP_reg0 ... DW_OP_reg31:
		return push_register(e, op - DW_OP_reg0, 0);
	case DW_OP_breg0 ... DW_OP_breg31:
		return push_register(e, op - DW_OP_breg0, cursor_sleb(&e->c));
	case DW_OP_const1u ... DW_OP_consts:
		return push_constant(e, op);
	case DW_OP_dup ... DW_OP_rot:
		return stack_operation(e, op);
	case DW_OP_abs:
	case DW_OP_neg:
	case DW_OP_not:
	case DW_OP_plus_uconst:
		return unary(e, op);
	case DW_OP_and:
	case DW_OP_div ... DW_OP_mul:
	case DW_OP_or ... DW_OP_plus:
	case DW_OP_shl ... DW_OP_xor:
	case DW_OP_eq ... DW_OP_ne:
		return binary(e, op);
	default:
		return other_operation(e, op);
	}
}

int evaluate(const struct frame_registers *regs, const struct frame_memory *memory, struct cursor expr,
	     const uint64_t *initial, uint64_t *ret)
{
	struct evaluation e = {.regs = regs, .memory = memory, .start = expr.pos, .c = expr};

	if (initial)
		push(&e, *initial);
	for (unsigned i = 0; cursor_left(&e.c) > 0; i++) {
		if (i == EVALUATE_STEPS_MAX || (memory->operations && !*memory->operations))
			return -ELOOP;
		if (memory->operations)
			--*memory->operations;
		step(&e);
		if (e.error)
			return e.error;
		if (e.c.bad)
			return -EINVAL;
	}
	if (e.n == 0)
		return -EINVAL;
	*ret = e.stack[e.n - 1];
	return 0;
}
