// SPDX-License-Identifier: Apache-2.0
/* Rows of code that BEAM's JIT has made. */
#include "agent/elf/code/beam_rows.h"

#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <string.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "tests/unit/agent/elf/cfi_bytes.h"

#define VA 0x7f0000001000ull
#define FRAME "\x48\x83\xec\x10"	   /* sub rsp, 16 */
#define UNFRAME "\x48\x83\xc4\x10"	   /* add rsp, 16 */
#define KEEP "\x48\x89\xe5"		   /* mov rbp, rsp */
#define OVER "\x48\x8d\x63\x80"		   /* lea rsp, [rbx - 128] */
#define BACK "\x48\x89\xec"		   /* mov rsp, rbp */
#define FROM_PROCESS "\x49\x8b\x65\x58"	   /* mov rsp, [r13 + 88] */
#define FP_FROM_PROCESS "\x49\x8b\x6d\x60" /* mov rbp, [r13 + 96] */
#define TO_PROCESS "\x49\x89\x65\x58"	   /* mov [r13 + 88], rsp */
/* with the heap's pointer, or rbp; of machines without AVX and with it */
#define WITH_HTOP "\x66\x49\x0f\x6e\xc7\x66\x48\x0f\x6e\xcc\x66\x0f\x6c\xc1\x41\x0f\x11\x45\x50"
#define WITH_HTOP_AVX "\xc4\xc1\xf9\x6e\xcf\xc4\xe3\xf1\x22\xc4\x01\xc4\xc1\x7a\x7f\x45\x50"
#define WITH_FP "\x66\x48\x0f\x6e\xc4\x66\x48\x0f\x6e\xcd\x66\x0f\x6c\xc1\x41\x0f\x11\x45\x58"
#define WITH_FP_AVX "\xc4\xe1\xf9\x6e\xcc\xc4\xe3\xf1\x22\xc5\x01\xc4\xc1\x7a\x7f\x45\x58"
#define CALL_NEAR "\xe8\x10\x00\x00\x00"
#define RECORD "\x55\x48\x89\xe5" /* push rbp; mov rbp, rsp */
#define LEAVE "\xc9"
#define CALL "\xff\xd1" /* call rcx */
#define RET "\xc3"

struct rows_case {
	const char *name;
	struct bytes code;
	enum beam_code kind;
	uint32_t info;
	const char *expected; /* of each row; "!": the return address is checked */
	bool records;
};

static const struct rows_case cases[] = {
	{"a frame, and a call of C code by way of rbp", BYTES(FRAME KEEP OVER CALL BACK UNFRAME RET),
	 .expected = "0 rsp+8; 4 rsp+24; b rbp+24; 10 rsp+24; 14 rsp+8"},
	/* lea rsi, [rip + 3] */
	{"a process goes on, when it has waited, where an address was taken",
	 BYTES(FRAME "\x48\x8d\x35\x03\x00\x00\x00" CALL RET KEEP OVER CALL BACK UNFRAME RET),
	 .expected = "0 rsp+8; 4 rsp+24; 15 rbp+24; 1a rsp+24; 1e rsp+8"},
	{"the frame is kept with the process: nothing is known until it is back",
	 BYTES(FRAME OVER CALL FROM_PROCESS UNFRAME RET),
	 .expected = "0 rsp+8; 4 rsp+24; 8 none; e rsp+24; 12 rsp+8"},
	{"the process's structure has it", BYTES(FRAME TO_PROCESS OVER CALL_NEAR FROM_PROCESS UNFRAME RET),
	 .expected = "0 rsp+8; 4 rsp+24; c kept(0)+24 call+12; 11 kept(0)+24; 15 rsp+24; 19 rsp+8"},
	{"with the pointer of the heap", BYTES(WITH_HTOP OVER CALL FROM_PROCESS RET),
	 .expected = "0 rsp+8; 17 kept(0)+8 call+23; 19 kept(0)+8; 1d rsp+8"},
	{"the same with AVX", BYTES(WITH_HTOP_AVX OVER CALL FROM_PROCESS RET),
	 .expected = "0 rsp+8; 15 kept(0)+8 call+21; 17 kept(0)+8; 1b rsp+8"},
	{"what was stored before a call is not what the callee leaves", BYTES(TO_PROCESS CALL OVER CALL RET),
	 .expected = "0 rsp+8; a none"},
	{"nor what was stored with another frame", BYTES(TO_PROCESS FRAME OVER CALL RET),
	 .expected = "0 rsp+8; 8 rsp+24; c none"},
	{"another process", BYTES(TO_PROCESS OVER "\x49\x89\xc5" CALL RET), /* mov r13, rax */
	 .expected = "0 rsp+8; 8 kept(0)+8; b none"},
	{"rbp is not kept over a call", BYTES(KEEP CALL OVER CALL RET), .expected = "0 rsp+8; 9 none"},
	{"with frame records", BYTES(RECORD WITH_FP OVER CALL FROM_PROCESS LEAVE RET), .records = true,
	 .expected = "0 rsp+8; 1 rsp+16; 1b kept(0)+16 record-16; 21 rsp+16; 22 rsp+8"},
	{"the same with AVX", BYTES(RECORD WITH_FP_AVX OVER CALL FROM_PROCESS LEAVE RET), .records = true,
	 .expected = "0 rsp+8; 1 rsp+16; 19 kept(0)+16 record-16; 1f rsp+16; 20 rsp+8"},
	{"a frame record is still there behind a call", BYTES(RECORD FRAME CALL LEAVE RET), .records = true,
	 .expected = "0 rsp+8; 1 rsp+16; 8 rsp+32; b rsp+8"},
	{"the record is back with the stack", .records = true,
	 .code = BYTES(RECORD WITH_FP_AVX OVER CALL FROM_PROCESS FP_FROM_PROCESS LEAVE RET),
	 .expected = "0 rsp+8; 1 rsp+16; 19 kept(0)+16 record-16; 1f rsp+16; 24 rsp+8"},
	{"but not if only the stack was stored", .records = true,
	 .code = BYTES(RECORD TO_PROCESS OVER CALL FROM_PROCESS FP_FROM_PROCESS LEAVE RET),
	 .expected = "0 rsp+8; 1 rsp+16; c kept(0)+16 record-16; 12 rsp+16; 17 none"},
	{"nor if it was stored before a call", .records = true,
	 .code = BYTES(RECORD WITH_FP_AVX CALL OVER FP_FROM_PROCESS CALL BACK RET),
	 .expected = "0 rsp+8; 1 rsp+16; 1b rbp+16; 1f none"},
	{"shared code that leaves a record of its caller's", .kind = BEAM_SHARED, .records = true,
	 .code = BYTES("\x90\x90\x90\x90\x90\x90\x90" RET WITH_FP_AVX OVER CALL FROM_PROCESS FP_FROM_PROCESS
			       LEAVE RET),
	 .expected = "0 none; 8 rsp+16!; 1d kept(0)+16 record-16; 23 rsp+16!; 28 rsp+8!"},
	/* jmp over it; mov rsp, [r13 + 88]; call; the place that the jump leads to */
	{"a call that does not return, behind which another way leads on",
	 BYTES(TO_PROCESS OVER "\xeb\x0a" FROM_PROCESS FROM_PROCESS CALL "\x90" CALL FROM_PROCESS RET),
	 .expected =
		 "0 rsp+8; 8 kept(0)+8; a none; 14 kept(0)+8; 15 kept(0)+8 call+21; 17 kept(0)+8; 1b rsp+8"},
	/* sub rsp, 4096; and rsp, -64; xor r13d, r13d; call */
	{"the function that schedules processes", .kind = BEAM_SHARED,
	 .code = BYTES("\xc3\x48\x81\xec\x00\x10\x00\x00\x48\x83\xe4\xc0\x45\x31\xed" CALL FROM_PROCESS RET),
	 .expected = "0 none; 1 rsp+8!; 8 rsp+4104!; c aligned+4112; 15 none"},
	/* jmp rax; call; ret: a label to which other code leads */
	{"its labels", .kind = BEAM_SHARED,
	 .code = BYTES("\xc3\x48\x81\xec\x00\x10\x00\x00\x48\x83\xe4\xc0\x45\x31\xed" CALL
		       "\xff\xe0" CALL FROM_PROCESS RET),
	 .expected = "0 none; 1 rsp+8!; 8 rsp+4104!; c aligned+4112; 19 none"},
	{"rows of shared code begin in the middle of a piece", .kind = BEAM_SHARED, .info = 12,
	 .code = BYTES("\x90\x90\x90\x90\x90\x90\x90" RET FRAME UNFRAME RET),
	 .expected = "0 rsp+24!; 4 rsp+8!"},
	{"C code may have changed rbp: it is not what was kept",
	 BYTES(KEEP "\x48\x89\xc5" OVER CALL BACK RET), .expected = "0 rsp+8; a none"},
	/* je to the second return */
	{"a branch brings the frame behind a return", BYTES(FRAME "\x74\x05" UNFRAME RET UNFRAME RET),
	 .expected = "0 rsp+8; 4 rsp+24; a rsp+8; b rsp+24; f rsp+8"},
	/* jmp to the test; body: nop; test: je body; ret */
	{"a jump backwards brings it in the next round", BYTES(FRAME "\xeb\x01\x90\x74\xfd" UNFRAME RET),
	 .expected = "0 rsp+8; 4 rsp+24; d rsp+8"},
	{"behind a return to which nothing leads, nothing is known", BYTES(FRAME UNFRAME RET UNFRAME RET),
	 .expected = "0 rsp+8; 4 rsp+24; 8 rsp+8; 9 none"},
	/* what is skipped would be decoded as a push */
	{"the beginning that debuggers use",
	 BYTES("........\xeb\x06\x00\xe8\x68\xfd\xff\xff" FRAME UNFRAME RET), .info = 8,
	 .expected = "0 rsp+8; 14 rsp+24; 18 rsp+8"},
	{"what is no instruction", BYTES(FRAME "\x06\x90" RET), .expected = "0 rsp+8; 4 none"},
	{"shared pieces begin behind an end, at an aligned address",
	 BYTES("\x90\x90\x90\x90\x90\x90\x90" RET KEEP OVER CALL BACK RET), .kind = BEAM_SHARED,
	 .expected = "0 none; 8 rsp+8!; f rbp+8!; 14 rsp+8!"},
	{"what the outermost function returns to", BYTES("\xc3\x90"), .kind = BEAM_EXIT,
	 .expected = "0 undefined"},
};

static void rule_text(struct buf *b, const struct memory_row *r)
{
	const struct elf_rule *rule = &r->rule;

	(void)buf_printf(b, "%s%x ", b->len ? "; " : "", r->off);
	if (rule->cfa_kind == CFA_UNDEFINED)
		(void)buf_puts(b, "undefined");
	else if (rule->cfa_kind == CFA_NONE)
		(void)buf_puts(b, "none");
	else if (rule->cfa_kind == CFA_KEPT)
		(void)buf_printf(b, "kept(%d)+%d", rule->cfa_off, rule->cfa_add);
	else if (rule->cfa_kind == CFA_ALIGNED)
		(void)buf_printf(b, "aligned+%d", rule->cfa_off);
	else
		(void)buf_printf(b, "%s+%d%s", rule->cfa_reg == 7 ? "rsp" : "rbp", rule->cfa_off,
				 rule->flags & RULE_CHECKED ? "!" : "");
	if (rule->cfa_kind == CFA_KEPT && rule->fp.kind == REG_CFA_OFF)
		(void)buf_printf(b, " record%d", rule->fp.off);
	else if (rule->cfa_kind == CFA_KEPT && rule->fp.off)
		(void)buf_printf(b, " call+%d", rule->fp.off);
}

Test(beam_rows, cases)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct rows_case *c = &cases[i];
		const struct memory_code code = {.va = VA,
						 .code = (const uint8_t *)c->code.data,
						 .n = (uint32_t)c->code.len,
						 .frame_pointer = c->records};
		_cleanup_buf_ struct buf text = {0};
		struct memory_rows rows = {0};
		int r = beam_rows_make(&rows, &code, c->kind, c->info, NULL);

		if (r == -ENOTSUP)
			cr_skip_test("not on this architecture");
		cr_assert_eq(r, 0, "%s", c->name);
		for (size_t k = 0; k < rows.n; k++)
			rule_text(&text, &rows.v[k]);
		(void)buf_putc(&text, '\0');
		cr_expect_str_eq((const char *)text.data, c->expected, "%s: %s", c->name,
				 (const char *)text.data);
		memory_rows_fini(&rows);
	}
}

/* One callee is called directly, another one through a pointer. */
static int32_t saved(void *data, uint64_t address, bool pointer)
{
	int *calls = data;

	*calls += 1;
	cr_expect_eq(address, VA + (pointer ? 22 + 0x200 : 13 + 0x10), "%#llx", (unsigned long long)address);
	return pointer ? -40 : -24;
}

Test(beam_rows, callees)
{
	static const uint8_t bytes[] =
		TO_PROCESS OVER CALL_NEAR "\x31\xc0\x90"
					  "\xff\x15\x00\x02\x00\x00" FROM_PROCESS RET; /* call [rip + 512] */
	const struct memory_code code = {.va = VA, .code = bytes, .n = sizeof bytes - 1};
	_cleanup_buf_ struct buf text = {0};
	struct memory_rows rows = {0};
	int calls = 0, r;

	r = beam_rows_make(&rows, &code, BEAM_FUNCTION, 0,
			   &(struct beam_callees){.saved = saved, .data = &calls});
	if (r == -ENOTSUP)
		cr_skip_test("not on this architecture");
	cr_assert_eq(r, 0);
	for (size_t k = 0; k < rows.n; k++)
		rule_text(&text, &rows.v[k]);
	(void)buf_putc(&text, '\0');
	cr_expect_str_eq((const char *)text.data,
			 "0 rsp+8; 8 kept(-24)+8; d kept(0)+8; 10 kept(-40)+8; 16 kept(0)+8; 1a rsp+8", "%s",
			 (const char *)text.data);
	cr_expect_eq(calls, 2, "each is looked at once");
	memory_rows_fini(&rows);
}

Test(beam_rows, sizes)
{
	struct memory_rows rows = {0};
	const struct memory_code empty = {.va = VA, .code = (const uint8_t *)"", .n = 0};
	const struct memory_code one = {.va = VA, .code = (const uint8_t *)"\xc3", .n = 1};

	cr_expect_lt(beam_rows_make(&rows, &empty, BEAM_FUNCTION, 0, NULL), 0);
	cr_expect_lt(beam_rows_make(&rows, &one, BEAM_FUNCTION, 1, NULL), 0,
		     "nothing is left behind its information");
}
