// SPDX-License-Identifier: Apache-2.0
/* Rows of functions that .NET has compiled, from unwind information and code. */
#include "agent/elf/code/dotnet_rows.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "tests/unit/agent/elf/cfi_bytes.h"
#include "tests/unit/machine.h"

#define VA 0x7f0000001000ull
#define PUSH_BP "\x55"
#define POP_BP "\x5d"
#define PUSH_BX "\x53"
#define POP_BX "\x5b"
#define SUB_16 "\x48\x83\xec\x10"
#define ADD_16 "\x48\x83\xc4\x10"
#define BP_IS_SP_16 "\x48\x8d\x6c\x24\x10" /* lea rbp, [rsp + 16] */
#define BP_IS_SP "\x48\x8b\xec"
#define SP_IS_BP_8 "\x48\x8d\x65\xf8" /* lea rsp, [rbp - 8] */
#define CALL "\xff\xd0"
#define RET "\xc3"
#define JUMP_AX "\x48\xff\xe0"
#define NOP "\x90"

/* Of unwind information: version and flags, bytes of the prologue, slots, frame register and offset; slots */
#define INFO(flags, prologue, slots, frame) flags prologue slots frame
#define PUSHES_BP(at) at "\x50"
#define PUSHES_BX(at) at "\x30"
#define ALLOCATES_16(at) at "\x12"
#define SETS_FRAME(at) at "\x03"

struct rows_case {
	const char *name;
	struct bytes unwind, code;
	const char *expected; /* of each row; "(16)": the caller's rbp is there below the CFA; "!": checked */
	int result;
};

static const struct rows_case cases[] = {
	{"a frame record", BYTES(INFO("\x01", "\x04", "\x02", "\x05") SETS_FRAME("\x04") PUSHES_BP("\x01")),
	 BYTES(PUSH_BP BP_IS_SP CALL POP_BP RET), "0 rsp+8; 1 rsp+16(16); 4 rbp+16(16); 7 rsp+8", 0},
	{"a frame pointer above what was allocated; two ends",
	 BYTES(INFO("\x01", "\x0b", "\x04", "\x15") SETS_FRAME("\x0b") ALLOCATES_16("\x06") PUSHES_BX("\x02")
		       PUSHES_BP("\x01")),
	 BYTES(PUSH_BP PUSH_BX SUB_16 BP_IS_SP_16 SP_IS_BP_8 POP_BX POP_BP RET CALL SP_IS_BP_8 POP_BX POP_BP
		       JUMP_AX NOP),
	 "0 rsp+8; 1 rsp+16(16); 2 rsp+24(16); 6 rsp+40(16); b rbp+24(16); 11 rsp+8; 12 rbp+24(16); 1a "
	 "rsp+8; "
	 "1d rbp+24(16)",
	 0},
	{"no frame pointer", BYTES(INFO("\x19", "\x01", "\x01", "\x00") PUSHES_BX("\x01")),
	 BYTES(PUSH_BX CALL POP_BX RET CALL), "0 rsp+8; 1 rsp+16; 4 rsp+8; 5 rsp+16", 0},
	{"a handler, with the method's frame pointer",
	 BYTES(INFO("\x01", "\x05", "\x02", "\x00") ALLOCATES_16("\x05") PUSHES_BP("\x01")),
	 BYTES(PUSH_BP SUB_16 "\x48\x8b\x2f" CALL ADD_16 POP_BP RET), /* mov rbp, [rdi] */
	 "0 rsp+8; 1 rsp+16(16); 5 rsp+32(16); e rsp+16(16); f rsp+8", 0},
	{"without a prologue", BYTES(INFO("\x01", "\x00", "\x00", "\x00")), BYTES(NOP RET), "0 rsp+8", 0},
	{"code that is compiled while it runs begins with the frame that there is",
	 BYTES(INFO("\x01", "\x00", "\x02", "\x05") SETS_FRAME("\x00") PUSHES_BP("\x00")),
	 BYTES(CALL POP_BP RET), "0 rbp+16(16); 3 rsp+8", 0},
	{"a large frame", /* 0x1000 bytes in units of 8; then 0x80000 */
	 BYTES(INFO("\x01", "\x0e", "\x05", "\x00") "\x0e\x11\x00\x00\x08\x00"
						    "\x07\x01\x00\x02"),
	 BYTES("\x48\x81\xec\x00\x10\x00\x00\x48\x81\xec\x00\x00\x08\x00" CALL RET),
	 "0 rsp+8; 7 rsp+4104; e rsp+528392", 0},
	{"a frame offset that needs 32 bits",
	 BYTES(INFO("\x01", "\x05", "\x06", "\xf5") "\x05\x0b\x02\x00\x00\x00"
						    "\x04\x01\x08\x00" PUSHES_BP("\x01")),
	 BYTES(PUSH_BP NOP NOP NOP NOP CALL), "0 rsp+8; 1 rsp+16(16); 4 rsp+80(16); 5 rbp+48(16)", 0},
	{"what cannot be decoded", BYTES(INFO("\x01", "\x01", "\x01", "\x00") PUSHES_BX("\x01")),
	 BYTES(PUSH_BX CALL "\x06\x06\x06"), "0 rsp+8; 1 rsp+16; 3 rsp+16!", 0},
	{"another version", BYTES(INFO("\x02", "\x00", "\x00", "\x00")), BYTES(RET), NULL, -ENOTSUP},
	{"the rest is elsewhere", BYTES(INFO("\x21", "\x00", "\x00", "\x00")), BYTES(RET), NULL, -ENOTSUP},
	{"fewer slots than it says", BYTES(INFO("\x01", "\x01", "\x02", "\x00") PUSHES_BX("\x01")),
	 BYTES(RET), NULL, -ENOTSUP},
	{"an operation that is not all there", BYTES(INFO("\x01", "\x01", "\x01", "\x00") "\x01\x01"),
	 BYTES(RET), NULL, -ENOTSUP},
	{"an unknown operation", BYTES(INFO("\x01", "\x01", "\x01", "\x00") "\x01\x0f"), BYTES(RET), NULL,
	 -ENOTSUP},
	{"another order", BYTES(INFO("\x01", "\x02", "\x02", "\x00") PUSHES_BX("\x01") PUSHES_BP("\x02")),
	 BYTES(NOP NOP RET), NULL, -ENOTSUP},
	{"a prologue that is longer than the code",
	 BYTES(INFO("\x01", "\x09", "\x01", "\x00") PUSHES_BX("\x09")), BYTES(RET), NULL, -ENOTSUP},
	{"another frame register", BYTES(INFO("\x01", "\x01", "\x01", "\x03") SETS_FRAME("\x01")),
	 BYTES(NOP RET), NULL, -ENOTSUP},
	{"a frame pointer outside the frame", BYTES(INFO("\x01", "\x01", "\x01", "\x15") SETS_FRAME("\x01")),
	 BYTES(NOP RET), NULL, -ENOTSUP},
};

static void rule_text(struct buf *b, const struct memory_row *r)
{
	const struct elf_rule *rule = &r->rule;

	(void)buf_printf(b, "%s%x ", b->len ? "; " : "", r->off);
	if (rule->cfa_kind != CFA_REG_OFF) {
		(void)buf_puts(b, "none");
		return;
	}
	(void)buf_printf(b, "%s+%d", rule->cfa_reg == 7 ? "rsp" : "rbp", rule->cfa_off);
	if (rule->fp.kind == REG_CFA_OFF)
		(void)buf_printf(b, "(%d)", -rule->fp.off);
	if (rule->flags & RULE_CHECKED)
		(void)buf_putc(b, '!');
}

static void run_case(const struct rows_case *c)
{
	const struct memory_code code = {.va = VA,
					 .code = (const uint8_t *)c->code.data,
					 .n = (uint32_t)c->code.len,
					 .function = true};
	_cleanup_buf_ struct buf text = {0};
	struct memory_rows rows = {0};
	int r = dotnet_rows_make(&rows, &code, false, (const uint8_t *)c->unwind.data, c->unwind.len);

	cr_assert_eq(r, c->result, "%s: %d", c->name, r);
	for (size_t k = 0; k < rows.n; k++)
		rule_text(&text, &rows.v[k]);
	(void)buf_putc(&text, '\0');
	if (r == 0)
		cr_expect_str_eq((const char *)text.data, c->expected, "%s: %s", c->name,
				 (const char *)text.data);
	memory_rows_fini(&rows);
}

Test(dotnet_rows, cases)
{
	ONLY_ON_X86_64("the code");
	struct memory_rows rows;

	if (dotnet_rows_make_stub(&rows) == 0)
		memory_rows_fini(&rows);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		run_case(&cases[i]);
}

Test(dotnet_rows, code_that_leaves_as_it_was_entered)
{
	static const struct {
		struct bytes code;
		uint32_t bytes;
	} leaves[] = {
		{BYTES("\x49\x89\xfb" JUMP_AX NOP), 6}, /* mov r11, rdi; jmp rax */
		{BYTES("\x74\x01" RET NOP), 3},		/* a branch, which may go on elsewhere */
		{BYTES(PUSH_BX POP_BX RET), 0},
		{BYTES(CALL RET), 0},
		{BYTES(SUB_16 RET), 0},
		{BYTES(SP_IS_BP_8 RET), 0},
		{BYTES("\xe9\x00\x00\x00\x00" RET), 0},
		{BYTES(NOP NOP), 0},
		{BYTES("\x06" RET), 0},
		{BYTES("\xcc" RET), 0},
	};

	for (size_t i = 0; i < sizeof leaves / sizeof leaves[0]; i++)
		cr_expect_eq(dotnet_rows_leaves((const uint8_t *)leaves[i].code.data,
						(uint32_t)leaves[i].code.len),
			     leaves[i].bytes, "case %zu", i);
}

Test(dotnet_rows, of_code_that_may_be_another_one_return_addresses_are_checked)
{
	ONLY_ON_X86_64("the code");
	static const uint8_t unwind[] = {0x01, 0x04, 0x02, 0x05, 0x04, 0x03, 0x01, 0x50},
			     bytes[] = {0x55, 0x48, 0x8b, 0xec, 0x5d, 0xc3};
	const struct memory_code code = {.va = VA, .code = bytes, .n = sizeof bytes, .function = true};
	struct memory_rows rows = {0};

	cr_assert_eq(dotnet_rows_make(&rows, &code, true, unwind, sizeof unwind), 0);
	cr_assert_eq(rows.n, 4);
	for (size_t i = 0; i < rows.n; i++)
		cr_expect_eq(rows.v[i].rule.flags, RULE_CHECKED, "%zu", i);
	memory_rows_fini(&rows);
}
