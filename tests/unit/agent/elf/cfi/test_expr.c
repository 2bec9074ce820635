// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/cfi/expr.h"

#include "tests/unit/agent/elf/cfi_bytes.h"

static void check_cfa(const char *name, uint16_t machine, struct bytes expr, const char *expected)
{
	struct elf_rule rule = {.cfa_off = 99, .cfa_add = 99};
	char text[RULE_FORMAT_MAX];

	expr_cfa(machine, cursor_of(expr.data, expr.len), &rule);
	rule_format_cfa(text, machine, &rule);
	cr_expect_str_eq(text, expected, "%s: found %s, expected %s", name, text, expected);
}

Test(expr, cfa_shapes)
{
	static const struct {
		const char *name;
		struct bytes expr;
		const char *expected;
	} cases[] = {
		{"GCC stack realignment", BYTES("\x76\x78\x06"), "*(rbp-8)"},
		{"two-byte offset", BYTES("\x76\xb8\x7f\x06"), "*(rbp-72)"},
		{"perlasm", BYTES("\x77\x98\x01\x06\x23\x08"), "*(rsp+152)+8"},
		{"rbp and addend", BYTES("\x76\xd8\x00\x06\x23\x08"), "*(rbp+88)+8"},
		{"r9", BYTES("\x77\x08\x79\x00\x38\x1e\x22\x06\x23\x08"), "*(rsp+r9*8+8)+8"},
		{"r9 by a shift, offset in the index", BYTES("\x77\x00\x79\x01\x33\x24\x22\x06"),
		 "*(rsp+r9*8+8)"},
		{"sigcontext", BYTES("\x77\xa0\x01\x06"), "*(rsp+160)"},
		{"bregx", BYTES("\x92\x06\x78\x06"), "*(rbp-8)"},
		{"register plus offset", BYTES("\x77\x10"), "rsp+16"},
		{"lit and plus", BYTES("\x77\x10\x06\x38\x22"), "*(rsp+16)+8"},
		{"constant first", BYTES("\x38\x77\x10\x06\x22"), "*(rsp+16)+8"},
		{"minus const1u", BYTES("\x77\x10\x06\x08\x10\x1c"), "*(rsp+16)-16"},
		{"const2s", BYTES("\x77\x00\x0b\xf0\xff\x22\x06"), "*(rsp-16)"},
		{"const4u", BYTES("\x77\x00\x0c\x10\x00\x00\x00\x22"), "rsp+16"},
		{"const4s, const8s",
		 BYTES("\x77\x00\x0d\xff\xff\xff\xff\x22\x0f\x02\x00\x00\x00\x00\x00\x00\x00\x22"), "rsp+1"},
		{"constu, consts", BYTES("\x77\x00\x10\x90\x01\x22\x11\x7f\x22"), "rsp+143"},
		{"const1s, const2u, const8u",
		 BYTES("\x77\x00\x09\xff\x22\x0a\x00\x01\x22\x0e\x01\x00\x00\x00\x00\x00\x00\x00\x22"),
		 "rsp+256"},
		{"nop", BYTES("\x96\x77\x10\x96"), "rsp+16"},
		{"PLT", BYTES("\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22"), "plt(rsp+8,11)"},
		{"PLT with -fcf-protection", BYTES("\x77\x08\x80\x00\x3f\x1a\x39\x2a\x33\x24\x22"),
		 "plt(rsp+8,9)"},
		{"PLT, last operator another", BYTES("\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x1c"),
		 "unsupported"},
		{"PLT, literal out of range", BYTES("\x77\x08\x80\x00\x3f\x1a\x40\x2a\x33\x24\x22"),
		 "unsupported"},
		{"PLT, other offset", BYTES("\x77\x10\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22"), "unsupported"},
		{"empty", BYTES(""), "unsupported"},
		{"a constant", BYTES("\x38"), "unsupported"},
		{"a constant, dereferenced", BYTES("\x38\x06"), "unsupported"},
		{"twice dereferenced", BYTES("\x77\x08\x06\x06"), "unsupported"},
		{"two registers", BYTES("\x77\x08\x76\x08\x22\x06"), "unsupported"},
		{"other index", BYTES("\x77\x08\x7a\x00\x38\x1e\x22\x06"), "unsupported"},
		{"other scale", BYTES("\x77\x08\x79\x00\x34\x1e\x22\x06"), "unsupported"},
		{"index without deref", BYTES("\x77\x08\x79\x00\x38\x1e\x22"), "unsupported"},
		{"difference of registers", BYTES("\x77\x08\x76\x08\x1c"), "unsupported"},
		{"operator on an empty stack", BYTES("\x22"), "unsupported"},
		{"deref on an empty stack", BYTES("\x06"), "unsupported"},
		{"plus_uconst on an empty stack", BYTES("\x23\x08"), "unsupported"},
		{"shift by 64", BYTES("\x79\x00\x08\x40\x24"), "unsupported"},
		{"truncated operand", BYTES("\x77\x08\x0c\x00"), "unsupported"},
		{"truncated LEB128", BYTES("\x77\x80"), "unsupported"},
		{"offset beyond 32 bits", BYTES("\x77\x80\x80\x80\x80\x10"), "unsupported"},
		{"addend beyond 32 bits", BYTES("\x77\x00\x06\x23\x80\x80\x80\x80\x10"), "unsupported"},
		{"wraps back into 32 bits", BYTES("\x77\x08\x0f\xff\xff\xff\xff\xff\xff\xff\xff\x22"),
		 "rsp+7"},
		{"register beyond 8 bits", BYTES("\x92\x80\x02\x00"), "unsupported"},
		{"stack overflow", BYTES("\x30\x30\x30\x30\x30\x30\x30\x30\x30\x77\x00"), "unsupported"},
		{"unknown operator", BYTES("\x77\x00\x13"), "unsupported"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		check_cfa(cases[i].name, EM_X86_64, cases[i].expr, cases[i].expected);
}

Test(expr, shapes_of_x86_are_not_those_of_aarch64)
{
	check_cfa("deref", EM_AARCH64, BYTES("\x8d\x10\x06"), "*(x29+16)");
	check_cfa("PLT", EM_AARCH64, BYTES("\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22"), "unsupported");
	check_cfa("r9", EM_AARCH64, BYTES("\x77\x08\x79\x00\x38\x1e\x22\x06"), "unsupported");
}

Test(expr, registers)
{
	static const struct {
		struct bytes expr;
		struct elf_reg_rule saved_at, value;
	} cases[] = {
		{BYTES("\x76\x70"),
		 {.kind = REG_DEREF_REG, .reg = 6, .off = -16},
		 {.kind = REG_REGISTER, .reg = 6, .off = -16}},
		{BYTES("\x7a\x00"), {.kind = REG_DEREF_REG, .reg = 10}, {.kind = REG_REGISTER, .reg = 10}},
		{BYTES("\x76\x70\x06"),
		 {.kind = REG_UNSUPPORTED},
		 {.kind = REG_DEREF_REG, .reg = 6, .off = -16}},
		/* the CFA is on the stack at the start */
		{BYTES("\x23\x08"), {.kind = REG_CFA_OFF, .off = 8}, {.kind = REG_UNSUPPORTED}},
		{BYTES("\x38\x1c\x06"), {.kind = REG_UNSUPPORTED}, {.kind = REG_CFA_OFF, .off = -8}},
		{BYTES("\x38"), {.kind = REG_UNSUPPORTED}, {.kind = REG_UNSUPPORTED}},
		{BYTES("\x76\x70\x06\x38\x22"), {.kind = REG_UNSUPPORTED}, {.kind = REG_UNSUPPORTED}},
		{BYTES("\xff"), {.kind = REG_UNSUPPORTED}, {.kind = REG_UNSUPPORTED}},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct cursor c = cursor_of(cases[i].expr.data, cases[i].expr.len);
		struct elf_reg_rule saved_at = expr_saved_at(c), value = expr_value(c);

		cr_expect_arr_eq(&saved_at, &cases[i].saved_at, sizeof(saved_at), "case %zu", i);
		cr_expect_arr_eq(&value, &cases[i].value, sizeof(value), "case %zu", i);
	}
}
