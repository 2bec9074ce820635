// SPDX-License-Identifier: Apache-2.0
/* Rows of A64 code without call-frame information. The words are what an assembler makes of the comments. */
#include "agent/elf/code/a64_rows.h"

#include <criterion/criterion.h>
#include <elf.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/elf/cfi/rule_format.h"
#include "agent/elf/code/a64.h"
#include "agent/elf/code/a64_memory.h"

#define VA 0x10000ull

struct a64_case {
	const char *name;
	const uint32_t *words;
	size_t n;
	/* each row: offset, CFA, where the caller's x29 is unless that is x29, where the return address is */
	const char *expected;
};

#define WORDS(...) (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / 4

static const struct a64_case cases[] = {
	/* add w0, w0, #1; ret */
	{"a leaf", WORDS(0x11000400, 0xd65f03c0), "0 sp+0 x30"},
	/* nop; stp x29, x30, [sp, #-16]!; mov x29, sp; ldp x29, x30, [sp], #16; ret: crti.o has it */
	{"a landing pad that is left out", WORDS(0xd503201f, 0xa9bf7bfd, 0x910003fd, 0xa8c17bfd, 0xd65f03c0),
	 "0 sp+0 x30; 8 sp+16 cfa-16 cfa-8; 10 sp+0 x30"},
	/* stp x29, x30, [sp, #-32]!; mov x29, sp; bl .+0x1000; ldp x29, x30, [sp], #32; ret */
	{"a frame record", WORDS(0xa9be7bfd, 0x910003fd, 0x94000400, 0xa8c27bfd, 0xd65f03c0),
	 "0 sp+0 x30; 4 sp+32 cfa-32 cfa-24; 10 sp+0 x30"},
	/*
	 * paciasp; stp x29, x30, [sp, #-16]!; mov x29, sp; blr x8; ldp x29, x30, [sp], #16; autiasp;
	 * ret
	 */
	{"signed, with a landing pad",
	 WORDS(0xd503233f, 0xa9bf7bfd, 0x910003fd, 0xd63f0100, 0xa8c17bfd, 0xd50323bf, 0xd65f03c0),
	 "0 sp+0 x30; 8 sp+16 cfa-16 cfa-8; 14 sp+0 x30"},
	/* str x30, [sp, #-16]!; bl .+0x1000; ldr x30, [sp], #16; ret */
	{"the return address alone", WORDS(0xf81f0ffe, 0x94000400, 0xf84107fe, 0xd65f03c0),
	 "0 sp+0 x30; 4 sp+16 cfa-16; c sp+0 x30"},
	/*
	 * sub sp, sp, #96; stp x29, x30, [sp, #16]; add x29, sp, #16; bl .+0x1000; ldp x29, x30, [sp,
	 * #16]; add sp, sp, #96; ret
	 */
	{"registers first, and the record inside the frame",
	 WORDS(0xd10183ff, 0xa9017bfd, 0x910043fd, 0x94000400, 0xa9417bfd, 0x910183ff, 0xd65f03c0),
	 "0 sp+0 x30; 4 sp+96 x30; 8 sp+96 cfa-80 cfa-72; 14 sp+96 x30; 18 sp+0 x30"},
	/*
	 * stp x29, x30, [sp, #-32]!; mov x29, sp; sub sp, sp, x0; bl .+0x1000; mov sp, x29; ldp x29,
	 * x30, [sp], #32; ret
	 */
	{"memory of a size that is not known",
	 WORDS(0xa9be7bfd, 0x910003fd, 0xcb2063ff, 0x94000400, 0x910003bf, 0xa8c27bfd, 0xd65f03c0),
	 "0 sp+0 x30; 4 sp+32 cfa-32 cfa-24; c x29+32 cfa-32 cfa-24; 14 sp+32 cfa-32 cfa-24; 18 sp+0 x30"},
	/*
	 * mov x12, #9024; sub sp, sp, x12; stp x19, x30, [sp]; bl .+0x1000; ldp x19, x30, [sp]; mov
	 * x12, #9024; add sp, sp, x12; ret
	 */
	{"a frame of a number in a register",
	 WORDS(0xd284680c, 0xcb2c63ff, 0xa9007bf3, 0x94000400, 0xa9407bf3, 0xd284680c, 0x8b2c63ff,
	       0xd65f03c0),
	 "0 sp+0 x30; 8 sp+9024 x30; c sp+9024 cfa-9016; 14 sp+9024 x30; 1c sp+0 x30"},
	/*
	 * mov x12, #0x10; movk x12, #1, lsl #16; sub sp, sp, x12; str x30, [sp]; bl .+0x1000; ldr x30,
	 * [sp]; mov x12, #0x10; movk x12, #1, lsl #16; add sp, sp, x12; ret
	 */
	{"a frame of a number of two halves",
	 WORDS(0xd280020c, 0xf2a0002c, 0xcb2c63ff, 0xf90003fe, 0x94000400, 0xf94003fe, 0xd280020c, 0xf2a0002c,
	       0x8b2c63ff, 0xd65f03c0),
	 "0 sp+0 x30; c sp+65552 x30; 10 sp+65552 cfa-65552; 18 sp+65552 x30; 24 sp+0 x30"},
	/* mov x12, #9024; ldr x12, [x0]; sub sp, sp, x12; ret */
	{"the number was replaced", WORDS(0xd284680c, 0xf940000c, 0xcb2c63ff, 0xd65f03c0),
	 "0 sp+0 x30; c refused"},
	/* cbz x0, .+20; stp x29, x30, [sp, #-16]!; bl .+0x1000; ldp x29, x30, [sp], #16; ret; ret */
	{"a return before the frame",
	 WORDS(0xb40000a0, 0xa9bf7bfd, 0x94000400, 0xa8c17bfd, 0xd65f03c0, 0xd65f03c0),
	 "0 sp+0 x30; 8 sp+16 cfa-16 cfa-8; 10 sp+0 x30"},
	/* cbz x0, .+8; sub sp, sp, #16; nop; ret */
	{"two paths that disagree", WORDS(0xb4000040, 0xd10043ff, 0xd503201f, 0xd65f03c0),
	 "0 sp+0 x30; 8 refused"},
	/* bl .+0x1000; nop */
	{"the return address is overwritten by a call", WORDS(0x94000400, 0xd503201f),
	 "0 sp+0 x30; 4 refused"},
	/* stp x29, x30, [sp, #-16]!; str x0, [sp, #8]; nop */
	{"the word of the return address is overwritten", WORDS(0xa9bf7bfd, 0xf90007e0, 0xd503201f),
	 "0 sp+0 x30; 4 sp+16 cfa-16 cfa-8; 8 refused"},
	/* mov x29, x0; add x1, x1, #1; ret */
	{"the caller's x29 is lost", WORDS(0xaa0003fd, 0x91000421, 0xd65f03c0),
	 "0 sp+0 x30; 4 sp+0 undef x30"},
	/*
	 * stp x29, x30, [sp, #-16]!; bl .+0x1000; stp x29, x30, [sp, #-32]!; ldp x29, x30, [sp], #32;
	 * ret
	 */
	{"a call that does not return, and the next function",
	 WORDS(0xa9bf7bfd, 0x94000400, 0xa9be7bfd, 0xa8c27bfd, 0xd65f03c0),
	 "0 sp+0 x30; 4 sp+16 cfa-16 cfa-8; 8 sp+0 x30; c sp+32 cfa-32 cfa-24; 10 sp+0 x30"},
	/* stp x29, x30, [sp, #-16]!; bl .+0x1000; bti c; ret */
	{"the same, with a landing pad", WORDS(0xa9bf7bfd, 0x94000400, 0xd503245f, 0xd65f03c0),
	 "0 sp+0 x30; 4 sp+16 cfa-16 cfa-8; 8 sp+0 x30"},
	/* stp x29, x30, [sp, #-16]!; adrp x0, #0; add x0, x0, #16; bl .+0x1000; add w0, w0, #1; ret */
	{"an address that the code makes is a function",
	 WORDS(0xa9bf7bfd, 0x90000000, 0x91004000, 0x94000400, 0x11000400, 0xd65f03c0),
	 "0 sp+0 x30; 4 sp+16 cfa-16 cfa-8; 10 sp+0 x30"},
	/*
	 * stp x29, x30, [sp, #-16]!; adrp x1, #0; ldr x1, [x0]; add x1, x1, #16; nop; ldp x29, x30,
	 * [sp], #16; ret
	 */
	{"the register of the page was overwritten",
	 WORDS(0xa9bf7bfd, 0x90000001, 0xf9400001, 0x91004021, 0xd503201f, 0xa8c17bfd, 0xd65f03c0),
	 "0 sp+0 x30; 4 sp+16 cfa-16 cfa-8; 18 sp+0 x30"},
	/*
	 * stp x29, x30, [sp, #-16]!; br x1; bl .+0x1000; ldp x29, x30, [sp], #16; ret; bl .+0x1000;
	 * ldp x29, x30, [sp], #16; ret
	 */
	{"cases of a jump by a table",
	 WORDS(0xa9bf7bfd, 0xd61f0020, 0x94000400, 0xa8c17bfd, 0xd65f03c0, 0x94000400, 0xa8c17bfd,
	       0xd65f03c0),
	 "0 sp+0 x30; 4 sp+16 cfa-16 cfa-8; 10 sp+0 x30; 14 sp+16 cfa-16 cfa-8; 1c sp+0 x30"},
	/* stp x16, x30, [sp, #-16]!; br x17; nop; adrp x16, #0; br x17; adrp x16, #0; br x17 */
	{"slots of a linker",
	 WORDS(0xa9bf7bf0, 0xd61f0220, 0xd503201f, 0x90000010, 0xd61f0220, 0x90000010, 0xd61f0220),
	 "0 sp+0 x30; 4 sp+16 cfa-8; c sp+0 x30"},
	/* stp x29, x30, [sp, #-32]!; nop; ldp x29, x30, [sp], #32; ret; nop; mov w0, #1; b .-20 */
	{"a case leads to what was reached",
	 WORDS(0xa9be7bfd, 0xd503201f, 0xa8c27bfd, 0xd65f03c0, 0xd503201f, 0x52800020, 0x17fffffb),
	 "0 sp+0 x30; 4 sp+32 cfa-32 cfa-24; c sp+0 x30; 14 sp+32 cfa-32 cfa-24"},
	/* stp x29, x30, [sp, #-32]!; nop; ldp x29, x30, [sp], #32; ret; str x1, [sp, #-16]!; b .-16 */
	{"a guess changes nothing",
	 WORDS(0xa9be7bfd, 0xd503201f, 0xa8c27bfd, 0xd65f03c0, 0xf81f0fe1, 0x17fffffc),
	 "0 sp+0 x30; 4 sp+32 cfa-32 cfa-24; c sp+0 x30; 10 refused"},
	/*
	 * mov x8, #220; svc #0; cbz x0, .+8; ret; mov x29, #0; ldp x1, x0, [sp], #16; blr x1; mov x8,
	 * #93; svc #0
	 */
	{"a thread's first code",
	 WORDS(0xd2801b88, 0xd4000001, 0xb4000040, 0xd65f03c0, 0xd280001d, 0xa8c103e1, 0xd63f0020, 0xd2800ba8,
	       0xd4000001),
	 "0 sp+0 x30; 10 root"},
	/* mov x8, #220; svc #0; cbz x0, .+8; ret; ret */
	{"a child in its parent's frame", WORDS(0xd2801b88, 0xd4000001, 0xb4000040, 0xd65f03c0, 0xd65f03c0),
	 "0 sp+0 x30"},
	/* ret; nop; mov x8, #139; svc #0; ret */
	{"a signal trampoline", WORDS(0xd65f03c0, 0xd503201f, 0xd2801168, 0xd4000001, 0xd65f03c0),
	 "0 sp+0 x30; 7 signal; 10 sp+0 x30"},
	/* ret; nop; nop; udf #0; stp x29, x30, [sp, #-16]!; ldp x29, x30, [sp], #16; ret */
	{"padding between functions",
	 WORDS(0xd65f03c0, 0xd503201f, 0xd503201f, 0x00000000, 0xa9bf7bfd, 0xa8c17bfd, 0xd65f03c0),
	 "0 sp+0 x30; 14 sp+16 cfa-16 cfa-8; 18 sp+0 x30"},
	/*
	 * stp d8, d9, [sp, #-32]!; ldr q0, [x0], #16; ldaxr x1, [x0]; stlxr w2, x1, [x0]; prfm
	 * pldl1keep, [sp]; ldp d8, d9, [sp], #32; ret
	 */
	{"vectors and other accesses",
	 WORDS(0x6dbe27e8, 0x3cc10400, 0xc85ffc01, 0xc802fc01, 0xf98003e0, 0x6cc227e8, 0xd65f03c0),
	 "0 sp+0 x30; 4 sp+32 x30; 18 sp+0 x30"},
	/* str x3, [sp]; ldr x29, [sp]; ret */
	{"an argument on the stack is replaced", WORDS(0xf90003e3, 0xf94003fd, 0xd65f03c0),
	 "0 sp+0 x30; 8 sp+0 undef x30"},
	/* ret; ldr w1, [x0]; br x17 */
	{"a function that nothing refers to", WORDS(0xd65f03c0, 0xb9400001, 0xd61f0220), "0 sp+0 x30"},
	/* ret; ldp x29, x30, [sp], #16; ret */
	{"the end of a function that nothing leads to", WORDS(0xd65f03c0, 0xa8c17bfd, 0xd65f03c0),
	 "0 sp+0 x30; 4 refused"},
	/* ret; ldr x30, [sp], #16; br x17 */
	{"the same, of one without a frame record", WORDS(0xd65f03c0, 0xf84107fe, 0xd61f0220),
	 "0 sp+0 x30; 4 refused"},
	/* ret; add w0, w0, #1; add sp, sp, #16; ret */
	{"the same, of one that saves nothing", WORDS(0xd65f03c0, 0x11000400, 0x910043ff, 0xd65f03c0),
	 "0 sp+0 x30; 4 refused"},
	/*
	 * ret; fill; stp x29, x30, [sp, #-16]!; mov x29, sp; stp x20, x0, [sp, #-16]!; bl .+0x1000; mov
	 * sp, x29; ldp x29, x30, [sp], #16; add sp, sp, x16, lsl #3; ret
	 */
	{"V8: calls take arguments away, a push is no beginning",
	 WORDS(0xd65f03c0, A64_FILL, A64_FILL, A64_FILL, A64_FILL, A64_FILL, A64_FILL, A64_FILL, 0xa9bf7bfd,
	       0x910003fd, 0xa9bf03f4, 0x94000400, 0x910003bf, 0xa8c17bfd, 0x8b306fff, 0xd65f03c0),
	 "0 sp+0 x30; 4 none; 20 sp+0 x30; 24 sp+16 cfa-16 cfa-8; 28 x29+16 cfa-16 cfa-8; 38 sp+0 x30"},
	/* ret; fill; ldur x20, [x29, #-32]; blr x17; mov x0, x1; br x17 */
	{"V8: what goes on with an interpreter's frame",
	 WORDS(0xd65f03c0, A64_FILL, A64_FILL, A64_FILL, A64_FILL, A64_FILL, A64_FILL, A64_FILL, 0xf85e03b4,
	       0xd63f0220, 0xaa0103e0, 0xd61f0220),
	 "0 sp+0 x30; 4 none; 20 x29+16 cfa-16 cfa-8"},
	/* ret; fill; ldp x29, x30, [sp], #16; br x17 */
	{"V8: what takes its caller's record away",
	 WORDS(0xd65f03c0, A64_FILL, A64_FILL, A64_FILL, A64_FILL, A64_FILL, A64_FILL, A64_FILL, 0xa8c17bfd,
	       0xd61f0220),
	 "0 sp+0 x30; 4 none; 20 sp+0 x30"},
	/* ret; fill; str x30, [sp]; blr x10; ldr x30, [sp]; ret */
	{"V8: what saves the return address where its caller has left room",
	 WORDS(0xd65f03c0, A64_FILL, A64_FILL, A64_FILL, A64_FILL, A64_FILL, A64_FILL, A64_FILL, 0xf90003fe,
	       0xd63f0140, 0xf94003fe, 0xd65f03c0),
	 "0 sp+0 x30; 4 none; 20 sp+0 x30; 28 refused"},
	/* fmov x3, d0; umov w4, v1.s[1]; ccmp x0, x1, #14, eq; mrs x5, tpidr_el0; ret */
	{"compare and select write no frame register",
	 WORDS(0x9e660003, 0x0e0c3c24, 0xfa41000e, 0xd53bd045, 0xd65f03c0), "0 sp+0 x30"},
};

static void print_row(struct buf *out, uint64_t va, const struct elf_rule *rule)
{
	char cfa[RULE_FORMAT_MAX], fp[RULE_FORMAT_MAX], ra[RULE_FORMAT_MAX];

	rule_format_cfa(cfa, EM_AARCH64, rule);
	rule_format_fp(fp, EM_AARCH64, rule);
	rule_format_ra(ra, EM_AARCH64, rule);
	buf_printf(out, "%s%llx ", out->len ? "; " : "", (unsigned long long)(va - VA));
	if (rule->cfa_kind == CFA_SIGNAL)
		buf_puts(out, "signal");
	else if (rule->cfa_kind == CFA_UNDEFINED)
		buf_puts(out, "root");
	else if (rule->cfa_kind == CFA_NONE)
		buf_puts(out, rule->cfa_off == NO_RULE_REFUSED ? "refused" : "none");
	else
		buf_printf(out, "%s%s%s %s", cfa, strcmp(fp, "same") ? " " : "", strcmp(fp, "same") ? fp : "",
			   ra);
}

static void print_rows(struct buf *out, const struct a64_case *c)
{
	const struct code_piece piece = {
		.va = VA, .code = (const uint8_t *)c->words, .n = (uint32_t)(c->n * sizeof *c->words)};
	_cleanup_(row_spans_fini) struct row_spans spans = {0};
	struct elf_rows *rows = NULL;

	cr_assert_eq(row_spans_init(&spans, NULL, 0), 0);
	cr_assert_eq(a64_read_piece(&spans, &piece), 0);
	cr_assert_eq(row_spans_lay_out(&spans, &rows), 0, "%s", c->name);
	for (size_t i = 0; i + 1 < rows->n_rows; i++)
		print_row(out, rows->rows[i].va, &rows->rules[rows->rows[i].rule]);
	elf_rows_free(rows);
}

Test(a64_rows, functions)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_buf_ struct buf out = {0};

		print_rows(&out, &cases[i]);
		cr_expect_str_eq(buf_str(&out) ?: "", cases[i].expected, "%s: %s", cases[i].name,
				 buf_str(&out));
	}
}

struct memory_case {
	const char *name;
	const uint32_t *words;
	size_t n;
	bool function, frame_pointer;
	uint32_t wanted;
	const char *expected; /* "!": the return address is checked */
};

static const struct memory_case memory_cases[] = {
	/* add w0, w0, #1; ret */
	{"a leaf", WORDS(0x11000400, 0xd65f03c0), .function = true, .expected = "0 sp+0 x30"},
	{"perhaps the middle of a function, which returns from there", WORDS(0x11000400, 0xd65f03c0),
	 .wanted = 4, .expected = "0 refused"},
	/* stp x29, x30, [sp, #-32]!; mov x29, sp; blr x8; ldp x29, x30, [sp], #32; ret */
	{"a frame record", WORDS(0xa9be7bfd, 0x910003fd, 0xd63f0100, 0xa8c27bfd, 0xd65f03c0),
	 .expected = "0 sp+0 x30!; 4 sp+32 cfa-32 cfa-24!; 8 x29+32 cfa-32 cfa-24!; 10 sp+0 x30!"},
	/* the same behind mov sp, x1; blr x8 */
	{"another stack",
	 WORDS(0x9100003f, 0xd63f0100, 0xa9be7bfd, 0x910003fd, 0xd63f0100, 0xa8c27bfd, 0xd65f03c0),
	 .function = true, .wanted = 4, .expected = "0 sp+0 x30; 4 refused"},
	/* mov sp, x1; nop; ret */
	{"the runtime vouches for the frame pointer", WORDS(0x9100003f, 0xd503201f, 0xd65f03c0),
	 .function = true, .frame_pointer = true, .wanted = 4,
	 .expected = "0 sp+0 x30; 4 x29+16 cfa-16 cfa-8"},
	/* udf #0, udf #0 */
	{"nothing", WORDS(0, 0), .expected = "0 refused"},
};

static void print_memory(struct buf *out, const struct memory_case *c)
{
	const struct memory_code code = {.va = VA,
					 .code = (const uint8_t *)c->words,
					 .n = (uint32_t)(c->n * sizeof *c->words),
					 .function = c->function,
					 .frame_pointer = c->frame_pointer,
					 .wanted = c->wanted};
	_cleanup_(memory_rows_fini) struct memory_rows rows = {0};

	cr_assert_eq(a64_memory_rows(&rows, &code), 0, "%s", c->name);
	for (size_t i = 0; i < rows.n; i++) {
		print_row(out, VA + rows.v[i].off, &rows.v[i].rule);
		if (rows.v[i].rule.flags & RULE_CHECKED)
			buf_puts(out, "!");
	}
}

Test(a64_rows, generated_code)
{
	for (size_t i = 0; i < ARRAY_SIZE(memory_cases); i++) {
		_cleanup_buf_ struct buf out = {0};

		print_memory(&out, &memory_cases[i]);
		cr_expect_str_eq(buf_str(&out), memory_cases[i].expected, "%s: %s", memory_cases[i].name,
				 buf_str(&out));
	}
}
