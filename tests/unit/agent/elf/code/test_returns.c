// SPDX-License-Identifier: Apache-2.0
/* Which functions return, by their code. */
#include "agent/elf/code/returns.h"

#include "agent/elf/code/starts.h"

#include "tests/unit/agent/elf/cfi_bytes.h"

static const struct returns_case {
	const char *name;
	struct bytes code;
	enum returns expected; /* of the function at 0 */
} cases[] = {
	{"ret", BYTES("\xc3"), RETURNS_SURELY},
	{"ud2", BYTES("\x0f\x0b"), RETURNS_NEVER},
	{"a loop for ever", BYTES("\xeb\xfe"), RETURNS_NEVER},
	{"one of two ways: test; je; ud2; ret", BYTES("\x85\xff\x74\x02\x0f\x0b\xc3"), RETURNS_SURELY},
	{"calls one that does not: call +1; ret; ud2", BYTES("\xe8\x01\x00\x00\x00\xc3\x0f\x0b"),
	 RETURNS_NEVER},
	{"calls one that does: call +1; ret; ret", BYTES("\xe8\x01\x00\x00\x00\xc3\xc3"), RETURNS_SURELY},
	{"calls itself, then returns", BYTES("\xe8\xfb\xff\xff\xff\xc3"), RETURNS_PERHAPS},
	{"calls itself or returns: test; je +5; call -9; ret",
	 BYTES("\x85\xff\x74\x05\xe8\xf7\xff\xff\xff\xc3"), RETURNS_SURELY},
	{"a tail call away", BYTES("\xe9\x00\x10\x00\x00"), RETURNS_SURELY},
	{"a jump through a register", BYTES("\xff\xe0"), RETURNS_SURELY},
	{"longjmp: mov rsp, [rdi + 48]; jmp [rdi + 56]", BYTES("\x48\x8b\x67\x30\xff\x67\x38"),
	 RETURNS_PERHAPS},
	{"behind a call and padding, where another function begins: call away; nop…; push rbx; pop rbx; ret",
	 BYTES("\xe8\x00\x10\x00\x00\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x53\x5b\xc3"),
	 RETURNS_NEVER},
	{"behind a call and padding, perhaps a loop: call away; nop…; dec edi; jne; ret",
	 BYTES("\xe8\x00\x10\x00\x00\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\xff\xcf\x75\xfc\xc3"),
	 RETURNS_PERHAPS},
};

Test(returns, by_code)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct code_piece piece = {.va = 0x1000,
						 .code = (const uint8_t *)cases[i].code.data,
						 .n = (uint32_t)cases[i].code.len};
		struct code_returns r = {0};

		cr_assert_eq(code_returns_init(&r, &piece), 0);
		cr_expect_eq(code_returns(&r, 0), cases[i].expected, "%s: %d", cases[i].name,
			     code_returns(&r, 0));
		code_returns_fini(&r);
	}
}

/* Through the GOT: jmp or call *disp(%rip) */
Test(returns, imported_functions_that_do_not)
{
	static const uint8_t code[] = {0xff, 0x15, 0xfa, 0x0f, 0x00, 0x00, 0xc3};
	uint64_t got = 0x2000;
	const struct code_starts starts = {.no_return = &got, .n_no_return = 1};
	struct code_piece piece = {.va = 0x1000, .code = code, .n = sizeof code, .starts = &starts};
	struct code_returns r = {0};

	cr_assert_eq(code_returns_init(&r, &piece), 0);
	cr_expect_eq(code_returns(&r, 0), RETURNS_NEVER);
	code_returns_fini(&r);
	got = 0x2008;
	cr_assert_eq(code_returns_init(&r, &piece), 0);
	cr_expect_eq(code_returns(&r, 0), RETURNS_SURELY);
	code_returns_fini(&r);
}
