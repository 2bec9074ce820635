// SPDX-License-Identifier: Apache-2.0
/* Evaluates expressions with registers r0 = 100, r1 = 101 ... r16, and 64 bytes of memory. */
#include <criterion/criterion.h>
#include <errno.h>

#include "agent/base/cleanup.h"
#include "agent/elf/cfi/dwarf_numbers.h"
#include "agent/elf/cfi/evaluate.h"

#define MEMORY 0x1000u

struct expression_case {
	const char *name;
	uint8_t bytes[24];
	size_t len;
	uint64_t value;
	int error;
};

static int read_memory(void *data, void *to, uint32_t bytes, uint64_t address)
{
	const uint8_t *memory = data;

	if (address < MEMORY || address - MEMORY > 64 || bytes > 64 - (address - MEMORY))
		return -1;
	memcpy(to, memory + (address - MEMORY), bytes);
	return 0;
}

static int run(const uint8_t *bytes, size_t len, const uint64_t *initial, uint64_t *ret)
{
	uint8_t content[64];
	struct frame_registers regs = {.known = 0x1ffff};
	struct frame_memory memory = {read_memory, content, NULL};

	for (unsigned i = 0; i < sizeof content; i++)
		content[i] = (uint8_t)(0xf0 + i);
	for (unsigned i = 0; i < FRAME_REGISTERS; i++)
		regs.value[i] = 100 + i;
	return evaluate(&regs, &memory, cursor_of(bytes, len), initial, ret);
}

#define LIT(n) (DW_OP_lit0 + (n))
#define BREG(n) (DW_OP_breg0 + (n))
#define BYTES(...) {__VA_ARGS__}, sizeof((uint8_t[]){__VA_ARGS__})
#define MINUS(n) (uint8_t)(0x80 - (n)) /* SLEB128 of one byte */

static const struct expression_case cases[] = {
	{"constants: 1 byte", BYTES(DW_OP_const1u, 0xff), 0xff, 0},
	{"constants: 1 byte, signed", BYTES(DW_OP_const1s, 0xff), UINT64_MAX, 0},
	{"constants: 2 bytes", BYTES(DW_OP_const2u, 0x34, 0xf2), 0xf234, 0},
	{"constants: 2 bytes, signed", BYTES(DW_OP_const2s, 0xfe, 0xff), (uint64_t)-2, 0},
	{"constants: 4 bytes", BYTES(DW_OP_const4u, 1, 2, 3, 0x84), 0x84030201, 0},
	{"constants: 4 bytes, signed", BYTES(DW_OP_const4s, 0xfd, 0xff, 0xff, 0xff), (uint64_t)-3, 0},
	{"constants: 8 bytes", BYTES(DW_OP_const8u, 1, 0, 0, 0, 0, 0, 0, 0x80), 0x8000000000000001, 0},
	{"constants: LEB128", BYTES(DW_OP_constu, 0x80, 1), 128, 0},
	{"constants: LEB128, signed", BYTES(DW_OP_consts, MINUS(5)), (uint64_t)-5, 0},
	{"literal", BYTES(LIT(31)), 31, 0},
	{"dup", BYTES(LIT(3), DW_OP_dup, DW_OP_plus), 6, 0},
	{"drop", BYTES(LIT(3), LIT(4), DW_OP_drop), 3, 0},
	{"over", BYTES(LIT(3), LIT(4), DW_OP_over), 3, 0},
	{"pick", BYTES(LIT(5), LIT(6), LIT(7), DW_OP_pick, 2), 5, 0},
	{"swap", BYTES(LIT(9), LIT(4), DW_OP_swap, DW_OP_minus), (uint64_t)-5, 0},
	/* 1 2 3 → 3 1 2 → 3 - (1 - 2) */
	{"rot", BYTES(LIT(1), LIT(2), LIT(3), DW_OP_rot, DW_OP_minus, DW_OP_minus), 4, 0},
	{"abs", BYTES(DW_OP_const1s, MINUS(0), DW_OP_abs), 128, 0},
	{"neg", BYTES(LIT(5), DW_OP_neg), (uint64_t)-5, 0},
	{"not", BYTES(LIT(0), DW_OP_not), UINT64_MAX, 0},
	{"and", BYTES(LIT(12), LIT(10), DW_OP_and), 8, 0},
	{"or", BYTES(LIT(12), LIT(10), DW_OP_or), 14, 0},
	{"xor", BYTES(LIT(12), LIT(10), DW_OP_xor), 6, 0},
	{"div is signed", BYTES(DW_OP_consts, MINUS(7), LIT(2), DW_OP_div), (uint64_t)-3, 0},
	{"the smallest number by -1",
	 BYTES(DW_OP_const8u, 0, 0, 0, 0, 0, 0, 0, 0x80, DW_OP_const1s, 0xff, DW_OP_div), 1ull << 63, 0},
	{"mod is unsigned", BYTES(LIT(7), LIT(4), DW_OP_mod), 3, 0},
	{"mul", BYTES(LIT(7), LIT(4), DW_OP_mul), 28, 0},
	{"plus_uconst", BYTES(LIT(7), DW_OP_plus_uconst, 0x80, 1), 135, 0},
	{"shl", BYTES(LIT(1), LIT(4), DW_OP_shl), 16, 0},
	{"shl by 64", BYTES(LIT(1), DW_OP_const1u, 64, DW_OP_shl), 0, 0},
	{"shr", BYTES(LIT(16), LIT(4), DW_OP_shr), 1, 0},
	{"shr by 200", BYTES(LIT(16), DW_OP_const1u, 200, DW_OP_shr), 0, 0},
	{"shra", BYTES(DW_OP_consts, MINUS(8), LIT(1), DW_OP_shra), (uint64_t)-4, 0},
	{"shra by 200", BYTES(DW_OP_consts, MINUS(8), DW_OP_const1u, 200, DW_OP_shra), UINT64_MAX, 0},
	{"eq", BYTES(LIT(1), LIT(1), DW_OP_eq), 1, 0},
	{"ne", BYTES(LIT(1), LIT(1), DW_OP_ne), 0, 0},
	{"lt is signed", BYTES(DW_OP_consts, MINUS(1), LIT(1), DW_OP_lt), 1, 0},
	{"le", BYTES(LIT(1), LIT(1), DW_OP_le), 1, 0},
	{"gt", BYTES(LIT(2), LIT(1), DW_OP_gt), 1, 0},
	{"ge", BYTES(LIT(0), LIT(1), DW_OP_ge), 0, 0},
	{"skip", BYTES(LIT(1), DW_OP_skip, 1, 0, LIT(2), DW_OP_nop), 1, 0},
	{"bra, taken", BYTES(LIT(5), LIT(1), DW_OP_bra, 1, 0, LIT(6)), 5, 0},
	{"bra, not taken", BYTES(LIT(5), LIT(0), DW_OP_bra, 1, 0, LIT(6)), 6, 0},
	/* counts from 4 to 0 in a loop, which starts with -1: -1 + 4 */
	{"a loop", BYTES(LIT(4), LIT(1), DW_OP_minus, DW_OP_dup, DW_OP_bra, 0xfa, 0xff), 0, 0},
	{"register", BYTES(DW_OP_reg0 + 3), 103, 0},
	{"register by number", BYTES(DW_OP_regx, 16), 116, 0},
	{"register and offset", BYTES(BREG(7), MINUS(8)), 99, 0},
	{"register by number, and offset", BYTES(DW_OP_bregx, 7, MINUS(8)), 99, 0},
	{"deref", BYTES(DW_OP_const2u, 0, 0x10, DW_OP_deref), 0xf7f6f5f4f3f2f1f0, 0},
	{"deref of 2 bytes", BYTES(DW_OP_const2u, 1, 0x10, DW_OP_deref_size, 2), 0xf2f1, 0},
	{"PLT",
	 BYTES(BREG(7), 8, BREG(16), 0, LIT(15), DW_OP_and, LIT(4), DW_OP_ge, LIT(3), DW_OP_shl, DW_OP_plus),
	 107 + 8 + 8, 0},
	{"nothing", {0}, 0, 0, -EINVAL},
	{"nothing left", BYTES(LIT(1), DW_OP_drop), 0, -EINVAL},
	{"too few values", BYTES(LIT(1), DW_OP_plus), 0, -EINVAL},
	{"swap of one", BYTES(LIT(1), DW_OP_swap), 0, -EINVAL},
	{"rot of two", BYTES(LIT(1), LIT(1), DW_OP_rot), 0, -EINVAL},
	{"pick too deep", BYTES(LIT(1), DW_OP_pick, 1), 0, -EINVAL},
	{"division by 0", BYTES(LIT(1), LIT(0), DW_OP_div), 0, -EINVAL},
	{"remainder by 0", BYTES(LIT(1), LIT(0), DW_OP_mod), 0, -EINVAL},
	{"truncated constant", BYTES(DW_OP_const4u, 1, 2), 0, -EINVAL},
	{"truncated LEB128", BYTES(DW_OP_constu, 0x80), 0, -EINVAL},
	{"branch behind the end", BYTES(LIT(1), DW_OP_skip, 1, 0), 0, -EINVAL},
	{"branch before the start", BYTES(LIT(1), DW_OP_skip, 0xfb, 0xff), 0, -EINVAL},
	{"for ever", BYTES(DW_OP_skip, 0xfd, 0xff), 0, -ELOOP},
	{"without end", BYTES(LIT(1), DW_OP_skip, 0xfc, 0xff), 0, -EINVAL},
	{"unknown register", BYTES(BREG(17), 0), 0, -ENODATA},
	{"no such register", BYTES(DW_OP_bregx, 0x80, 2, 0), 0, -ENODATA},
	{"no memory", BYTES(LIT(1), DW_OP_deref), 0, -EFAULT},
	{"half of it is memory", BYTES(DW_OP_const2u, 60, 0x10, DW_OP_deref), 0, -EFAULT},
	{"deref of 3 bytes", BYTES(DW_OP_const2u, 0, 0x10, DW_OP_deref_size, 3), 0, -EINVAL},
	{"address", BYTES(0x03, 0, 0, 0, 0, 0, 0, 0, 0), 0, -ENOTSUP},
	{"call_frame_cfa", BYTES(0x9c), 0, -ENOTSUP},
};

Test(evaluate, expressions)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct expression_case *c = &cases[i];
		uint64_t value = 0;
		int r = run(c->bytes, c->len, NULL, &value);

		cr_expect_eq(r, c->error, "%s: %d, not %d", c->name, r, c->error);
		cr_expect_eq(value, c->value, "%s: %#lx, not %#lx", c->name, (unsigned long)value,
			     (unsigned long)c->value);
	}
}

Test(evaluate, the_initial_value_is_on_the_stack)
{
	static const uint8_t plus[] = {DW_OP_plus_uconst, 8};
	uint64_t initial = 0x5000, value;

	cr_assert_eq(run(plus, sizeof plus, &initial, &value), 0);
	cr_expect_eq(value, 0x5008);
	cr_assert_eq(run(plus, 0, &initial, &value), 0);
	cr_expect_eq(value, 0x5000);
	cr_expect_eq(run(plus, sizeof plus, NULL, &value), -EINVAL);
}

/* The stack holds EVALUATE_STACK_MAX values and no more. */
Test(evaluate, stack_limit)
{
	uint8_t bytes[EVALUATE_STACK_MAX + 1];
	uint64_t value;

	memset(bytes, LIT(1), sizeof bytes);
	cr_expect_eq(run(bytes, EVALUATE_STACK_MAX, NULL, &value), 0);
	cr_expect_eq(run(bytes, sizeof bytes, NULL, &value), -EINVAL);
}

/* A walk evaluates the expressions of many frames: all of them have one limit. */
Test(evaluate, operations_in_all)
{
	static const uint8_t three[] = {LIT(1), LIT(2), DW_OP_plus};
	const struct frame_registers regs = {.known = 0};
	uint32_t left = 7;
	const struct frame_memory memory = {read_memory, NULL, &left};
	uint64_t value = 0;

	for (unsigned i = 0; i < 2; i++)
		cr_expect_eq(evaluate(&regs, &memory, cursor_of(three, sizeof three), NULL, &value), 0);
	cr_expect_eq(value, 3);
	cr_expect_eq(left, 1);
	cr_expect_eq(evaluate(&regs, &memory, cursor_of(three, sizeof three), NULL, &value), -ELOOP);
	cr_expect_eq(evaluate(&regs, &memory, cursor_of(three, sizeof three), NULL, &value), -ELOOP);
	cr_expect_eq(left, 0);
}
