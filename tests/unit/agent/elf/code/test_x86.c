// SPDX-License-Identifier: Apache-2.0
/* Instructions of which the decoder once said something else than the processor does. */
#include "agent/elf/code/x86.h"

#include "tests/unit/agent/elf/cfi_bytes.h"

#define BIT(n) (1u << (n))

static const struct {
	const char *name;
	struct bytes code;
	struct x86_insn expected; /* base and disp only where the operation has them */
} cases[] = {
	{"rex.w overrides the operand size: add $0x150b9b, %rdx",
	 BYTES("\x66\x48\x81\xc2\x9b\x0b\x15\x00"),
	 {.len = 8, .op = X86_ADD, .reg = X86_DX, .disp = 0x150b9b, .writes = BIT(X86_DX)}},
	{"a prefix behind rex ends its effect: push %rbx",
	 BYTES("\x49\x2e\x53"),
	 {.len = 3, .op = X86_PUSH, .reg = X86_BX}},
	{"rex behind rex: push %rbx", BYTES("\x49\x40\x53"), {.len = 3, .op = X86_PUSH, .reg = X86_BX}},
	{"push by the long form: push %rbp", BYTES("\xff\xf5"), {.len = 2, .op = X86_PUSH, .reg = X86_BP}},
	{"push of a word in memory", BYTES("\xff\x75\x08"), {.len = 3, .op = X86_PUSH, .reg = X86_NO_REG}},
	{"two bytes are pushed: unknown", BYTES("\x66\x9c"), {.len = 0, .op = X86_PUSH, .reg = X86_NO_REG}},
	{"a constant of two bytes leaves the others: mov $1, %bp",
	 BYTES("\x66\xbd\x01\x00"),
	 {.len = 4, .op = X86_OTHER, .reg = X86_NO_REG, .writes = BIT(X86_BP)}},
	{"cmp $-0x8000, %ax",
	 BYTES("\x66\x3d\x00\x80"),
	 {.len = 4, .op = X86_COMPARE, .reg = X86_NO_REG, .disp = -0x8000}},
	{"rdsspq %rax",
	 BYTES("\xf3\x48\x0f\x1e\xc8"),
	 {.len = 5, .op = X86_OTHER, .reg = X86_NO_REG, .writes = BIT(X86_AX)}},
	{"rdfsbase %ebp",
	 BYTES("\xf3\x0f\xae\xc5"),
	 {.len = 4, .op = X86_OTHER, .reg = X86_NO_REG, .writes = BIT(X86_BP)}},
	{"lfs (%rdx), %ebp",
	 BYTES("\x0f\xb4\x2a"),
	 {.len = 3, .op = X86_OTHER, .reg = X86_NO_REG, .writes = BIT(X86_BP)}},
	{"smsw %ebp",
	 BYTES("\x0f\x01\xe5"),
	 {.len = 3,
	  .op = X86_OTHER,
	  .reg = X86_NO_REG,
	  .writes = BIT(X86_AX) | BIT(X86_CX) | BIT(X86_DX) | BIT(X86_BX) | BIT(X86_BP) | BIT(11)}},
	{"xabort writes rax: no number goes to another register",
	 BYTES("\xc6\xf8\x09"),
	 {.len = 3, .op = X86_OTHER, .reg = X86_NO_REG, .writes = BIT(X86_AX)}},
	{"group 11 has one member", BYTES("\xc7\xc8\x00\x00\x00\x00"), {.len = 0, .reg = X86_NO_REG}},
	{"endbr64 writes nothing", BYTES("\xf3\x0f\x1e\xfa"), {.len = 4, .op = X86_OTHER, .reg = X86_NO_REG}},
};

Test(x86, instructions)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct x86_insn got = x86_decode((const uint8_t *)cases[i].code.data,
						       cases[i].code.len),
				      *e = &cases[i].expected;

		cr_expect_eq(got.len, e->len, "%s: length %u", cases[i].name, got.len);
		if (!e->len)
			continue;
		cr_expect(got.op == e->op && got.reg == e->reg && got.disp == e->disp &&
				  got.writes == e->writes,
			  "%s: op %u reg %u disp %d writes %#x", cases[i].name, got.op, got.reg, got.disp,
			  got.writes);
	}
}

/* No bytes lead beyond those that are there, and an instruction that is cut is unknown. */
Test(x86, cut)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		for (size_t n = 0; n < cases[i].expected.len; n++) {
			_cleanup_free_ uint8_t *code = malloc(n + 1);

			cr_assert(code);
			memcpy(code, cases[i].code.data, n);
			cr_expect_eq(x86_decode(code, n).len, 0, "%s, %zu bytes", cases[i].name, n);
		}
}

/* An instruction with more prefixes than it may have bytes is none, however many follow. */
Test(x86, prefixes_without_end)
{
	static const uint8_t prefixes[] = {0x66, 0x67, 0xf2, 0xf3, 0x2e, 0x64, 0xf0, 0x48};

	for (size_t i = 0; i < sizeof prefixes; i++)
		for (size_t n = X86_MAX_BYTES + 1; n < 100; n++) {
			_cleanup_free_ uint8_t *code = malloc(n);

			cr_assert(code);
			memset(code, prefixes[i], n);
			cr_expect_eq(x86_decode(code, n).len, 0, "%#x, %zu times", prefixes[i], n);
		}
}
