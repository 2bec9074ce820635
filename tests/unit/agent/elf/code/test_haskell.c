// SPDX-License-Identifier: Apache-2.0
/* Code of GHC: where it is, and the rule of StgRun for it. */
#include "agent/elf/code/haskell.h"

#include "tests/unit/agent/elf/cfi_bytes.h"

#define CODE_VA 0x2000
#define RETURN "\xff\x65\x00"					    /* jmp *(%rbp) */
#define TO_GC "\x41\xff\x65\xf0"				    /* jmp *-16(%r13) */
#define HEAP_CHECK "\x4d\x3b\xa5\x58\x03\x00\x00"		    /* cmp 856(%r13), %r12 */
#define STACK_CHECK "\x48\x8d\x45\xe8\x4c\x39\xf8"		    /* lea -24(%rbp), %rax; cmp %r15, %rax */
#define CALL "\x48\x83\xec\x08\xe8\x00\x10\x00\x00\x48\x83\xc4\x08" /* sub $8, %rsp; call; add $8, %rsp */
#define NOPS "\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90"
#define MARKS STACK_CHECK HEAP_CHECK RETURN TO_GC

/* Adds the FDE of StgRun at 0x1000 (see test_interpreter.c). */
static void read_stg_run(struct row_spans *spans)
{
	_cleanup_buf_ struct buf b = {0};
	size_t cie = put_cie(&b, EM_X86_64, "zR", X86_START);

	put_fde(&b, cie, true, TEXT_VA, 0x40,
		BYTES("\x41\x0c\x07\x00\x11\x06\xff\x6f\x11\x10\xfa\x6f\x16\x07\x04\x77\xb8\x80\x01"));
	const struct cfi_section s = section_of(&b, EM_X86_64);
	cr_assert_eq(fdes_read(spans, &s), 0);
}

/* Rows of the code at CODE_VA, "" if there are none. */
static const char *rows_of(struct bytes code, bool stg_run, struct buf *out)
{
	struct row_spans spans = {0};
	struct elf_rows *t = NULL;

	cr_assert_eq(row_spans_init(&spans, NULL, 0), 0);
	if (stg_run)
		read_stg_run(&spans);
	spans.n = 0; /* of the rules only */
	cr_assert_eq(haskell_read_piece(&spans, CODE_VA, (const uint8_t *)code.data, (uint32_t)code.len), 0);
	size_t n = spans.n;
	if (row_spans_lay_out(&spans, &t) == 0)
		put_table(out, t, EM_X86_64);
	else if (n)
		buf_puts(out, "none");
	elf_rows_free(t);
	row_spans_fini(&spans);
	return buf_str(out);
}

static const struct {
	const char *name;
	struct bytes code;
	const char *expected;
} cases[] = {
	{"a function", BYTES(MARKS), "2000 rsp+16440 cfa-48 cfa-8; 2015 none"},
	{"a call of a C function", BYTES(MARKS CALL RETURN),
	 "2000 rsp+16440 cfa-48 cfa-8; 2019 rsp+16448 cfa-48 cfa-8; 2022 rsp+16440 cfa-48 cfa-8; 2025 none"},
	{"rsp is lowered and not raised", BYTES(MARKS "\x48\x83\xec\x08" RETURN),
	 "2000 rsp+16440 cfa-48 cfa-8; 201c none"},
	{"rsp is raised by another number", BYTES(MARKS "\x48\x83\xec\x08\x90\x48\x83\xc4\x10" RETURN),
	 "2000 rsp+16440 cfa-48 cfa-8; 2021 none"},
	{"behind a function of something else: ret; nop", BYTES("\xc3\x90\x90" MARKS),
	 "2001 rsp+16440 cfa-48 cfa-8; 2018 none"},
	{"a function of something else between them", BYTES(MARKS NOPS NOPS "\x31\xc0\xc3\x90" MARKS),
	 "2000 rsp+16440 cfa-48 cfa-8; 2018 none; 202c rsp+16440 cfa-48 cfa-8; 2042 none"},
	{"the byte of a return inside an instruction: mov %rax, %rbx", BYTES(MARKS "\x48\x89\xc3" MARKS),
	 "2000 rsp+16440 cfa-48 cfa-8; 202d none"},
	{"a jump through rbp alone", BYTES(RETURN RETURN RETURN RETURN), ""},
	{"no jump through rbp", BYTES(STACK_CHECK HEAP_CHECK TO_GC), ""},
	{"two marks", BYTES(RETURN TO_GC), ""},
	{"cut in a mark", BYTES("\xff\x65"), ""},
	{"C", BYTES("\x55\x48\x89\xe5\x48\x83\xec\x10\x48\x8d\x45\xe8\x4c\x39\xf0\xff\x65\xf8\xc9\xc3"), ""},
};

Test(haskell, code)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_buf_ struct buf out = {0};
		const char *text = rows_of(cases[i].code, true, &out);

		cr_expect_str_eq(text, cases[i].expected, "%s: %s", cases[i].name, text);
	}
}

/* Each has as many marks as it needs. */
Test(haskell, stretches_apart)
{
	static char code[8192];
	_cleanup_buf_ struct buf out = {0};
	const char *text;

	memset(code, 0x90, sizeof code);
	memcpy(code + 1000, MARKS, sizeof MARKS - 1);
	memcpy(code + 6500, MARKS, sizeof MARKS - 1);
	text = rows_of((struct bytes){code, sizeof code}, true, &out);
	cr_expect_str_eq(text,
			 "22e8 rsp+16440 cfa-48 cfa-8; 24f9 none; 3864 rsp+16440 cfa-48 cfa-8; 3a75 none",
			 "%s", text);
}

/* In a library of Haskell code, the rule is not known, and no other source may guess one. */
Test(haskell, without_StgRun)
{
	_cleanup_buf_ struct buf out = {0};
	const char *text = rows_of(BYTES(MARKS CALL), false, &out);

	cr_expect_str_eq(text, "none", "%s", text);
}
