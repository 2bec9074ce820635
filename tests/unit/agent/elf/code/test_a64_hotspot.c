// SPDX-License-Identifier: Apache-2.0
/* Rows of A64 code that HotSpot has generated, by its kind and the size of its frame. */
#include "agent/elf/code/a64_hotspot.h"

#include <criterion/criterion.h>
#include <elf.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/elf/cfi/rule_format.h"

#define VA 0xffff80001000ull
#define WORDS 24

struct rows_case {
	const char *name;
	uint32_t words[WORDS]; /* up to a zero, unless `n` says more */
	uint32_t n;
	enum hotspot_code_kind kind;
	uint32_t frame;
	const char *expected; /* "'": x29 is saved, x30 behind it; "!": the return address is checked */
};

static const struct rows_case cases[] = {
	/* sub sp, sp, #32; stp [sp, #16]; nop; ldp; add; cmp sp, x8; b.hi 0x20; ret; adr x8, .; b far; nop */
	{"a small frame, a return with a poll, what the poll leads to",
	 {0xd10083ff, 0xa9017bfd, 0xd503201f, 0xa9417bfd, 0x910083ff, 0xeb2863ff, 0x54000048, 0xd65f03c0,
	  0x10000008, 0x14000400, 0xd503201f},
	 .kind = HOTSPOT_CODE_METHOD,
	 .frame = 32,
	 .expected = "0 sp+0; 4 sp+32; 8 sp+32'; 10 sp+32; 14 sp+0; 28 sp+32'"},
	/* stp [sp, #-16]!; mov x8, #8192; sub sp, sp, x8; bl; mov; add sp, sp, x8; ldp; ret; nop */
	{"a frame of which a register has the size",
	 {0xa9bf7bfd, 0xd2840008, 0xcb2863ff, 0x94000400, 0xd2840008, 0x8b2863ff, 0xa8c17bfd, 0xd65f03c0,
	  0xd503201f},
	 .kind = HOTSPOT_CODE_METHOD,
	 .frame = 8208,
	 .expected = "0 sp+0; 4 sp+16'; c sp+8208'; 18 sp+16'; 1c sp+0; 20 sp+8208'"},
	/* ldr; cmp; b.eq 0x10; b far; nop; sub x9, sp, #81920; str xzr, [x9]; sub sp, sp, #48; stp; nop */
	{"the receiver is checked, pages below the stack are touched",
	 {0xb9400829, 0x6b0a013f, 0x54000040, 0x14000400, 0xd503201f, 0xd14053e9, 0xf900013f, 0xd100c3ff,
	  0xa9027bfd, 0xd503201f},
	 .kind = HOTSPOT_CODE_METHOD,
	 .frame = 48,
	 .expected = "0 sp+0; 20 sp+48; 24 sp+48'"},
	/* udf; sub sp, sp, #32; stp; add x29, sp, #16; mov x29, x0; ldp; add; b far; nop */
	{"not to be entered any more; x29 is a record, then data; goes on elsewhere",
	 {0x00000000, 0xd10083ff, 0xa9017bfd, 0x910043fd, 0xaa0003fd, 0xa9417bfd, 0x910083ff, 0x14000400,
	  0xd503201f},
	 .n = 9,
	 .kind = HOTSPOT_CODE_METHOD,
	 .frame = 32,
	 .expected = "0 sp+0; 8 sp+32; c sp+32'; 18 sp+32; 1c sp+0; 20 sp+32'"},
	/* stp [sp, #-16]!; mov x29, sp; sub sp, sp, #64; blr x8; mov sp, x29; ldp; ret; adr; b far */
	{"a call of a native method, by its record",
	 {0xa9bf7bfd, 0x910003fd, 0xd10103ff, 0xd63f0100, 0x910003bf, 0xa8c17bfd, 0xd65f03c0, 0x10000000,
	  0x14000400},
	 .kind = HOTSPOT_CODE_NATIVE,
	 .frame = 80,
	 .expected = "0 sp+0; 4 sp+16'; 8 x29+16'; 18 sp+0; 1c x29+16'"},
	/* stp [sp, #-16]!; mov x29, sp; stp x0, x1, [sp, #-16]!; blr x8; ldp; ldp; ret */
	{"a stub that saves registers",
	 {0xa9bf7bfd, 0x910003fd, 0xa9bf07e0, 0xd63f0100, 0xa8c107e0, 0xa8c17bfd, 0xd65f03c0},
	 .kind = HOTSPOT_CODE_STUB,
	 .frame = 32,
	 .expected = "0 sp+0; 4 sp+16'; 8 x29+16'; 18 sp+0"},
	/* bl; ret */
	{"a call without a frame: the return address is gone",
	 {0x94000400, 0xd65f03c0},
	 .kind = HOTSPOT_CODE_STUB,
	 .expected = "0 sp+0; 4 refused"},
	/* ldp x29, x30, [sp, #32]; ret */
	{"what is no frame's end", {0xa9427bfd, 0xd65f03c0}, .kind = HOTSPOT_CODE_STUB, .expected = "0 sp+0"},
	/* the stub above; then stp [sp, #-32]!; bl; ldp [sp], #32; ret */
	{"stubs, one after another",
	 {0xa9bf7bfd, 0x910003fd, 0xa9bf07e0, 0xd63f0100, 0xa8c107e0, 0xa8c17bfd, 0xd65f03c0, 0xa9be7bfd,
	  0x94000400, 0xa8c27bfd, 0xd65f03c0},
	 .kind = HOTSPOT_CODE_STUBS,
	 .expected = "0 sp+0!; 4 sp+16'!; 8 x29+16'!; 18 sp+0!; 20 sp+32'!; 28 sp+0!"},
	{"no frames", {0xa9bf7bfd, 0xd503201f}, .kind = HOTSPOT_CODE_FRAMELESS, .expected = "0 sp+0"},
	/* str; blr x8; nop */
	{"only calls are known",
	 {0xf900013f, 0xd63f0100, 0xd503201f},
	 .kind = HOTSPOT_CODE_CALLS,
	 .frame = 64,
	 .expected = "0 refused; 4 sp+64'; 8 refused"},
};

static void format(struct buf *out, const struct memory_rows *rows)
{
	for (size_t i = 0; i < rows->n; i++) {
		const struct elf_rule *r = &rows->v[i].rule;
		const bool saved =
			r->fp.kind == REG_CFA_OFF && r->ra.kind == REG_CFA_OFF && r->ra.off == r->fp.off + 8;
		char text[RULE_FORMAT_MAX];

		cr_expect(saved || (r->fp.kind == REG_SAME && r->ra.kind == REG_SAME));
		rule_format_cfa(text, EM_AARCH64, r);
		buf_printf(out, "%s%x %s%s%s", i ? "; " : "", rows->v[i].off,
			   r->cfa_kind != CFA_NONE ? text : "refused", saved ? "'" : "",
			   r->flags & RULE_CHECKED ? "!" : "");
	}
}

static uint32_t length(const struct rows_case *c)
{
	uint32_t n = c->n;

	while (!c->n && n < WORDS && c->words[n])
		n++;
	return n * 4;
}

Test(a64_hotspot, of_words)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct rows_case *c = &cases[i];
		const struct memory_code code = {
			.va = VA, .code = (const uint8_t *)c->words, .n = length(c), .function = true};
		_cleanup_(memory_rows_fini) struct memory_rows rows = {0};
		_cleanup_buf_ struct buf out = {0};

		cr_assert_eq(a64_hotspot_rows(&rows, &code, c->kind, c->frame), 0, "%s", c->name);
		format(&out, &rows);
		cr_expect_str_eq(buf_str(&out), c->expected, "%s: %s", c->name, buf_str(&out));
	}
}

/* The last bytes are less than an instruction. */
Test(a64_hotspot, bytes_behind)
{
	static const uint8_t bytes[6] = {0xff, 0x83, 0x00, 0xd1, 0xfd, 0x7b};
	const struct memory_code code = {.va = VA, .code = bytes, .n = sizeof bytes, .function = true};
	_cleanup_(memory_rows_fini) struct memory_rows rows = {0};

	cr_assert_eq(a64_hotspot_rows(&rows, &code, HOTSPOT_CODE_METHOD, 32), 0);
	cr_expect_eq(rows.n, 2);
}
