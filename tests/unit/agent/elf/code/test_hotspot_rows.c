// SPDX-License-Identifier: Apache-2.0
/* Rows of code that HotSpot has generated, by its kind and the size of its frame. */
#include "agent/elf/code/hotspot_rows.h"

#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/elf/cfi/rule_format.h"
#include "tests/unit/agent/elf/cfi_bytes.h"
#include "tests/unit/machine.h"

#define VA 0x7f0000001000ull
#define BANG "\x89\x84\x24\x00\xc0\xfe\xff" /* mov [rsp - 0x14000], eax */

struct rows_case {
	const char *name;
	struct bytes code;
	enum hotspot_code_kind kind;
	uint32_t frame;
	const char *expected; /* "!": the return address is checked; "'": rbp is saved at CFA - 16 */
};

static const struct rows_case cases[] = {
	/* push rbp; sub rsp, 32; call; add rsp, 32; pop rbp; cmp rsp, [r15 + N]; ja +1; ret; mov; jmp */
	{"first compiler: frame, return with a poll, what the poll leads to",
	 BYTES(BANG "\x55\x48\x83\xec\x20\xe8\x00\x10\x00\x00\x48\x83\xc4\x20\x5d\x49\x3b\xa7\x40\x03\x00\x00"
		    "\x0f\x87"
		    "\x01\x00\x00\x00\xc3\x4d\x8b\xd7\xe9\x00\x10\x00\x00\x90"),
	 .kind = HOTSPOT_CODE_METHOD, .frame = 48,
	 .expected = "0 rsp+8; 8 rsp+16'; c rsp+48'; 15 rsp+16'; 16 rsp+8; 2c rsp+48'"},
	/* sub rsp, 24; mov [rsp + 16], rbp; nop; add rsp, 16; pop rbp; ret */
	{"second compiler: rbp is stored, not pushed",
	 BYTES("\x48\x81\xec\x18\x00\x00\x00\x48\x89\x6c\x24\x10\x90\x48\x83\xc4\x10\x5d\xc3"),
	 .kind = HOTSPOT_CODE_METHOD, .frame = 32,
	 .expected = "0 rsp+8; 7 rsp+32; c rsp+32'; 11 rsp+16'; 12 rsp+8"},
	/* push [rsp]; pop [rsp + 8]; push rax; push rbx; call; pop; pop */
	{"slots are copied by the stack, words are pushed for a stub",
	 BYTES("\x55\x48\x83\xec\x10\xff\x34\x24\x8f\x44\x24\x08\x50\x53\xe8\x00\x10\x00\x00\x5b\x58\x90"),
	 .kind = HOTSPOT_CODE_METHOD, .frame = 32,
	 .expected = "0 rsp+8; 1 rsp+16'; 5 rsp+32'; 8 rsp+40'; c rsp+32'; d rsp+40'; e rsp+48'; 14 rsp+40'; "
		     "15 rsp+32'"},
	/* the same frame; add; pop; jmp out; nop */
	{"a method that goes on elsewhere, and the code behind that",
	 BYTES("\x55\x48\x83\xec\x10\x48\x83\xc4\x10\x5d\xe9\x00\x10\x00\x00\x90"),
	 .kind = HOTSPOT_CODE_METHOD, .frame = 32,
	 .expected = "0 rsp+8; 1 rsp+16'; 5 rsp+32'; 9 rsp+16'; a rsp+8; f rsp+32'"},
	/* push rbp; sub rsp, 16; mov rbp, rsp; call; mov rsp, rbp; lea rbp, [rsp - 8] */
	{"rbp is data, and keeps the stack pointer at times",
	 BYTES("\x55\x48\x83\xec\x10\x48\x89\xe5\xe8\x00\x10\x00\x00\x48\x89\xec\x48\x8d\x6c\x24\xf8"),
	 .kind = HOTSPOT_CODE_METHOD, .frame = 32, .expected = "0 rsp+8; 1 rsp+16'; 5 rsp+32'"},
	{"not entered any more: the store below the stack was replaced",
	 BYTES("\xe9\x00\x10\x00\x00\xfe\xff\x55\x48\x83\xec\x10\x90"), .kind = HOTSPOT_CODE_METHOD,
	 .frame = 32, .expected = "0 rsp+8; 8 rsp+16'; c rsp+32'"},
	{"the same, the subtraction was", BYTES("\xe9\x00\x10\x00\x00\x00\x00\x48\x89\x6c\x24\x10\x90"),
	 .kind = HOTSPOT_CODE_METHOD, .frame = 32, .expected = "0 rsp+8; 7 rsp+32; c rsp+32'"},
	{"the same, a constant was",
	 BYTES("\xe9\x00\x10\x00\x00\x07\x5c\x7f\x00\x00" BANG "\x55\x48\x83\xec\x10\x90"),
	 .kind = HOTSPOT_CODE_METHOD, .frame = 32, .expected = "0 rsp+8; 12 rsp+16'; 16 rsp+32'"},
	/* call of the next instruction; sub qword [rsp], 5; jmp out; nop */
	{"where a method is deoptimised, its address is pushed",
	 BYTES("\x55\x48\x83\xec\x10\xc3\xe8\x00\x00\x00\x00\x48\x83\x2c\x24\x05\xe9\x00\x10\x00\x00\x90"),
	 .kind = HOTSPOT_CODE_METHOD, .frame = 32,
	 .expected = "0 rsp+8; 1 rsp+16'; 5 rsp+32'; b rsp+40'; 15 rsp+32'"},
	{"behind bytes that are no instruction, nothing is certain",
	 BYTES("\x55\x48\x83\xec\x10\x06\x90\x90"), .kind = HOTSPOT_CODE_METHOD, .frame = 32,
	 .expected = "0 rsp+8; 1 rsp+16'; 5 refused; 6 rsp+32'!"},
	/* jmp out; what is left of another instruction; mov rbx, [rax + 16]; nop; add; pop; ret */
	{"a place that is to be patched: the rest of its instruction is none",
	 BYTES("\x55\x48\x83\xec\x10\xe9\x00\x10\x00\x00\x00\x00\x00\x00\x00\x48\x8b\x58\x10\x90\x48\x83\xc4"
	       "\x10\x5d"
	       "\xc3"),
	 .kind = HOTSPOT_CODE_METHOD, .frame = 32,
	 .expected = "0 rsp+8; 1 rsp+16'; 5 rsp+32'; 18 rsp+16'; 19 rsp+8"},
	/* pop rax; nop; add; pop; ret */
	{"a method pops nothing of its frame: what looks so is part of another instruction",
	 BYTES("\x55\x48\x83\xec\x10\x58\x90\x48\x83\xc4\x10\x5d\xc3"), .kind = HOTSPOT_CODE_METHOD,
	 .frame = 32, .expected = "0 rsp+8; 1 rsp+16'; 5 rsp+32'; 6 rsp+32'!; b rsp+16'!; c rsp+8!"},
	/* ud0; nop */
	{"a mark that is never reached", BYTES("\x55\x48\x83\xec\x10\x0f\xff\x00\x90"),
	 .kind = HOTSPOT_CODE_METHOD, .frame = 32, .expected = "0 rsp+8; 1 rsp+16'; 5 rsp+32'"},
	/*
	 * je +6; jmp out; nop; push rbp; mov rbp, rsp; sub rsp, 48; mov r12, rsp; and rsp, -16; call; mov
	 * rsp, r12;
	 *            nop; leave; test; ret
	 */
	{"a native method's caller: check, frame, an aligned stack, a return that takes long",
	 BYTES("\x74\x06\xe9\x00\x10\x00\x00\x90\x55\x48\x8b\xec\x48\x83\xec\x30\x4c\x8b\xe4\x48\x83\xe4\xf0"
	       "\xe8\x00"
	       "\x10\x00\x00\x49\x8b\xe4\x90\xc9\x85\xc0\xc3"),
	 .kind = HOTSPOT_CODE_NATIVE, .frame = 64,
	 .expected = "0 rsp+8; 7 rsp+64'; 8 rsp+8; 9 rsp+16'; 10 rsp+64'; 17 rbp+16'; 1f rsp+64'; 21 rsp+8"},
	/* pop rax; and rsp, -16; push rax; push rbp; mov rbp, rsp; sub rsp, 64; nop */
	{"a frame on a stack that was aligned before",
	 BYTES("\x58\x48\x83\xe4\xf0\x50\x55\x48\x8b\xec\x48\x83\xec\x40\x90"), .kind = HOTSPOT_CODE_NATIVE,
	 .frame = 80, .expected = "0 rsp+8; 1 refused; a rsp+16'; e rsp+80'"},
	/*
	 * push rbp; mov rbp, rsp; push rbx; pop rbx; leave; ret; padding; another one: push rbx; pop rbx;
	 * ret
	 */
	{"stubs, one after another", BYTES("\x55\x48\x8b\xec\x53\x5b\xc9\xc3\x53\x5b\xc3"),
	 .kind = HOTSPOT_CODE_STUBS,
	 .expected = "0 rsp+8!; 1 rsp+16'!; 4 rbp+16'!; 7 rsp+8!; 9 rsp+16!; a rsp+8!"},
	/* no instruction; at the next aligned address: push rbx; ret */
	{"stubs and data",
	 BYTES("\x06\x53\x53\x53\x53\x53\x53\x53\x53\x53\x53\x53\x53\x53\x53\x53\x53\x5b\xc3"),
	 .kind = HOTSPOT_CODE_STUBS, .expected = "0 refused; 10 rsp+8!; 11 rsp+16!; 12 rsp+8!"},
	/*
	 * push rbp; sub rsp, 16; mov rcx, rsp; jae +9; sub rsp, 16; mov rdi, rsp; nop; nop (the jump's
	 * target); push rcx; push rax; pop rax; pop rsp; nop
	 */
	{"a method keeps its stack pointer, and makes room on one of two ways",
	 BYTES("\x55\x48\x83\xec\x10\x48\x8b\xcc\x73\x08\x48\x83\xec\x10\x48\x8b\xfc\x90\x90\x51\x50\x58\x5c"
	       "\x90"),
	 .kind = HOTSPOT_CODE_METHOD, .frame = 32,
	 .expected =
		 "0 rsp+8; 1 rsp+16'; 5 rsp+32'; e rsp+48'; 12 rcx+32'; 14 *(rsp+0)+32'; 15 *(rsp+8)+32'; 16 "
		 "*(rsp+0)+32'; 17 rsp+32'"},
	/* mov rcx, rsp; push rcx; sub rsp, 0x7fffffff, twice; mov [rsp - 8], rcx; nop */
	{"the stack pointer moves farther than a frame is large",
	 BYTES("\x48\x8b\xcc\x51\x48\x81\xec\xff\xff\xff\x7f\x48\x81\xec\xff\xff\xff\x7f\x48\x89\x4c\x24\xf8"
	       "\x90"),
	 .kind = HOTSPOT_CODE_ADAPTERS, .expected = "0 rsp+8; 4 rsp+16; b rcx+8"},
	/* mov r11, rsp; and rsp, -16; push rax; mov rax, r11; mov r11, [rax + 8]; mov rax, rbx; jmp [rbx] */
	{"an adapter aligns the stack",
	 BYTES("\x4c\x8b\xdc\x48\x83\xe4\xf0\x50\x49\x8b\xc3\x4c\x8b\x58\x08\x48\x8b\xc3\xff\x23"),
	 .kind = HOTSPOT_CODE_ADAPTERS, .expected = "0 rsp+8; 7 r11+8; b rax+8; 12 refused"},
	/*
	 * mov r13, rsp; and rsp, -16; sub rsp, 128; mov [rsp + 16], r13; sub rsp, 8; call; add rsp, 8; mov
	 * rsp, r13; nop
	 */
	{"an adapter keeps its stack pointer on the stack, and calls",
	 BYTES("\x4c\x8b\xec\x48\x83\xe4\xf0\x48\x81\xec\x80\x00\x00\x00\x4c\x89\x6c\x24\x10\x48\x83\xec\x08"
	       "\xe8\x00\x10"
	       "\x00\x00\x48\x83\xc4\x08\x49\x8b\xe5\x90"),
	 .kind = HOTSPOT_CODE_ADAPTERS,
	 .expected = "0 rsp+8; 7 r13+8; 13 *(rsp+16)+8; 17 *(rsp+24)+8; 20 *(rsp+16)+8; 23 rsp+8"},
	{"no frames", BYTES("\x53\x5b\x90"), .kind = HOTSPOT_CODE_FRAMELESS, .expected = "0 rsp+8"},
	/* push rax; call rdx; pop rax */
	{"only calls are known", BYTES("\x50\xff\xd2\x58"), .kind = HOTSPOT_CODE_CALLS, .frame = 64,
	 .expected = "0 refused; 1 rsp+64'; 3 refused"},
	{"the interpreter", BYTES("\x50\xff\xd2\x58"), .kind = HOTSPOT_CODE_INTERPRETER,
	 .expected = "0 interpreted"},
};

static void format(struct buf *out, const struct memory_rows *rows)
{
	for (size_t i = 0; i < rows->n; i++) {
		const struct elf_rule *r = &rows->v[i].rule;
		const bool saved = r->fp.kind == REG_CFA_OFF && r->fp.off == -16;
		char text[RULE_FORMAT_MAX];

		rule_format_cfa(text, EM_X86_64, r);
		buf_printf(out, "%s%x %s%s%s", i ? "; " : "", rows->v[i].off,
			   r->cfa_kind != CFA_NONE ? text : "refused", saved ? "'" : "",
			   r->flags & RULE_CHECKED ? "!" : "");
	}
}

Test(hotspot_rows, of_bytes)
{
	ONLY_ON_X86_64("the code");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct rows_case *c = &cases[i];
		const struct memory_code code = {.va = VA,
						 .code = (const uint8_t *)c->code.data,
						 .n = (uint32_t)c->code.len,
						 .function = true};
		_cleanup_(memory_rows_fini) struct memory_rows rows = {0};
		_cleanup_buf_ struct buf out = {0};

		cr_assert_eq(hotspot_rows_make(&rows, &code, c->kind, c->frame), 0, "%s", c->name);
		format(&out, &rows);
		cr_expect_str_eq(buf_str(&out), c->expected, "%s: %s", c->name, buf_str(&out));
	}
}

Test(hotspot_rows, limits)
{
	static const uint8_t code[MEMORY_CODE_MAX + 1];
	struct memory_code c = {.va = VA, .code = code};
	struct memory_rows rows = {0};

	cr_expect_eq(hotspot_rows_make(&rows, &c, HOTSPOT_CODE_METHOD, 32), -EFBIG);
	c.n = MEMORY_CODE_MAX + 1;
	cr_expect_eq(hotspot_rows_make(&rows, &c, HOTSPOT_CODE_METHOD, 32), -EFBIG);
	c.n = 16;
	cr_expect_eq(hotspot_rows_make(&rows, &c, HOTSPOT_CODE_METHOD, 2u << 20), -EFBIG);
	cr_expect_eq(rows.n, 0);
	cr_assert_eq(hotspot_rows_make(&rows, &c, HOTSPOT_CODE_INTERPRETER, 64), 0);
	cr_expect_eq(rows.v[0].rule.cfa_off, -64);
	memory_rows_fini(&rows);
}
