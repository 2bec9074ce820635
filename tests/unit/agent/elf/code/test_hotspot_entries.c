// SPDX-License-Identifier: Apache-2.0
/* Rows of HotSpot's interpreter, where it enters methods. */
#include "agent/elf/code/hotspot_entries.h"

#include <criterion/criterion.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/elf/cfi/rule_format.h"
#include "tests/unit/agent/elf/cfi_bytes.h"
#include "tests/unit/machine.h"

#define VA 0x7f0000001000ull
#define SLOT 64

struct entry_case {
	const char *name;
	struct bytes code;
	struct hotspot_entry entry;
	const char *expected;
};

static const struct entry_case cases[] = {
	/*
	 * mov rdx, [rbx + 8]; cmp; jbe 13; pop rax; mov rsp, r13; push rax; jmp out; 13: pop rax; 14: push 0;
	 * dec edx; jg 14; push rax; push rbp; mov rbp, rsp; push r13; push 0; mov r13, [rbx + 8]; push rbx;
	 * nop
	 */
	{"local variables, and a stack that overflows",
	 BYTES("\x48\x8b\x53\x08\x83\xfa\x10\x76\x0a\x58\x49\x8b\xe5\x50\xe9\x00\x10\x00\x00\x58\x6a\x00\xff"
	       "\xca"
	       "\x7f\xfa\x50\x55\x48\x8b\xec\x41\x55\x6a\x00\x4c\x8b\x6b\x08\x53\x90"),
	 {0, 41},
	 "0 entered(rsp+0); a entered(rax); e entered(rsp+0); 14 entered(rax); 1b entered(rsp+0); "
	 "1c entered(rsp+8); 1f entered(rbp+8); 28 interpreted"},
	/* nop; nop; pop rsi; mov rsp, r13; jmp rsi; nop */
	{"a method that needs no frame, and code around it",
	 BYTES("\x90\x90\x5e\x49\x8b\xe5\xff\xe6\x90"),
	 {2, 8},
	 "0 interpreted; 2 entered(rsp+0); 3 entered(rsi); 8 interpreted"},
	/* push rcx; add rsp, 8; sub rsp, 16; add rsp, 24 */
	{"a stack that moves, beyond the return address",
	 BYTES("\x51\x48\x83\xc4\x08\x48\x83\xec\x10\x48\x83\xc4\x18\x90"),
	 {0, 14},
	 "0 entered(rsp+0); 1 entered(rsp+8); 5 entered(rsp+0); 9 entered(rsp+16); d interpreted"},
	/* call; nop */
	{"a call", BYTES("\xe8\x00\x10\x00\x00\x90"), {0, 6}, "0 entered(rsp+0); 5 interpreted"},
	/* mov rbx, [rbx]; nop */
	{"the method is not in its register any more",
	 BYTES("\x48\x8b\x1b\x90"),
	 {0, 4},
	 "0 entered(rsp+0); 3 interpreted"},
	/* lea r13, [rsp + 8]; nop */
	{"nor is the caller's stack pointer",
	 BYTES("\x4c\x8d\x6c\x24\x08\x90"),
	 {0, 6},
	 "0 entered(rsp+0); 5 interpreted"},
	/* pop rax; xor eax, eax; nop */
	{"nor the return address",
	 BYTES("\x58\x31\xc0\x90"),
	 {0, 4},
	 "0 entered(rsp+0); 1 entered(rax); 3 interpreted"},
	/* pop rax; pop rax; nop */
	{"another word is popped into its register",
	 BYTES("\x58\x58\x90"),
	 {0, 3},
	 "0 entered(rsp+0); 1 entered(rax); 2 interpreted"},
	/* push rcx; pop rbx; nop */
	{"the method's register is popped",
	 BYTES("\x51\x5b\x90"),
	 {0, 3},
	 "0 entered(rsp+0); 1 entered(rsp+8); 2 interpreted"},
	/* push rbp; push rcx; mov rbp, rsp; nop */
	{"rbp is no record",
	 BYTES("\x55\x51\x48\x8b\xec\x90"),
	 {0, 6},
	 "0 entered(rsp+0); 1 entered(rsp+8); 2 entered(rsp+16); 5 interpreted"},
	{"no instruction", BYTES("\x06\x90"), {0, 2}, "0 interpreted"},
	{"beyond the code", BYTES("\x90\x90"), {0, 3}, "0 interpreted"},
};

static void format(struct buf *out, const struct memory_rows *rows)
{
	for (size_t i = 0; i < rows->n; i++) {
		char text[RULE_FORMAT_MAX];

		rule_format_cfa(text, EM_X86_64, &rows->v[i].rule);
		buf_printf(out, "%s%x %s", i ? "; " : "", rows->v[i].off, text);
	}
}

Test(hotspot_entries, of_bytes)
{
	ONLY_ON_X86_64("the code");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct entry_case *c = &cases[i];
		const struct memory_code code = {
			.va = VA, .code = (const uint8_t *)c->code.data, .n = (uint32_t)c->code.len};
		_cleanup_(memory_rows_fini) struct memory_rows rows = {0};
		_cleanup_buf_ struct buf out = {0};

		cr_assert_eq(hotspot_interpreter_rows(&rows, &code, SLOT, &c->entry, 1), 0, "%s", c->name);
		format(&out, &rows);
		cr_expect_str_eq(buf_str(&out), c->expected, "%s: %s", c->name, buf_str(&out));
		cr_expect(c->entry.start == 0 || rows.v[0].rule.cfa_off == -SLOT, "%s", c->name);
	}
}

/* A list that is not in order is followed as far as it is. */
Test(hotspot_entries, several)
{
	ONLY_ON_X86_64("the code");
	static const struct hotspot_entry entries[] = {{2, 4}, {4, 6}, {3, 5}, {7, 7}};
	const struct memory_code code = {
		.va = VA, .code = (const uint8_t *)"\x90\x90\x58\x90\x58\x90\x90", .n = 7};
	_cleanup_(memory_rows_fini) struct memory_rows rows = {0};
	_cleanup_buf_ struct buf out = {0};

	cr_assert_eq(hotspot_interpreter_rows(&rows, &code, SLOT, entries, ARRAY_SIZE(entries)), 0);
	format(&out, &rows);
	cr_expect_str_eq(buf_str(&out),
			 "0 interpreted; 2 entered(rsp+0); 3 entered(rax); 4 entered(rsp+0); 5 entered(rax); "
			 "6 interpreted",
			 "%s", buf_str(&out));
}
