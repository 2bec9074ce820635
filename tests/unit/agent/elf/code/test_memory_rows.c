// SPDX-License-Identifier: Apache-2.0
/* Rows of code of which only the bytes are known. */
#include "agent/elf/code/memory_rows.h"

#include <criterion/criterion.h>
#include <elf.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/elf/cfi/rule_format.h"
#include "tests/unit/agent/elf/cfi_bytes.h"
#include "tests/unit/machine.h"

#define VA 0x7f0000001000ull

struct memory_case {
	const char *name;
	struct bytes code;
	bool function, frame_pointer, single;
	uint32_t wanted;
	const char *expected; /* "!": the return address is checked */
};

static const struct memory_case cases[] = {
	{"sub rsp, 8; call rcx; add rsp, 8; ret", BYTES("\x48\x83\xec\x08\xff\xd1\x48\x83\xc4\x08\xc3"),
	 .function = true, .expected = "0 rsp+8; 4 rsp+16; a rsp+8"},
	{"push rbx; two cases of a jump by register; pop rbx; ret each",
	 BYTES("\x53\xff\xe0\x5b\xc3\x90\x5b\xc3"), .function = true,
	 .expected = "0 rsp+8; 1 rsp+16; 4 rsp+8; 6 rsp+16; 7 rsp+8"},
	/* mov rbx, [rcx - 8]; push rbp; mov rbp, rsp; a jump that leaves the function with its frame */
	{"a frame record, and what cannot be followed",
	 BYTES("\x48\x8b\x59\xf8\x55\x48\x89\xe5\x53\xe9\x00\x10\x00\x00"), .function = true,
	 .expected = "0 rsp+8; 5 rsp+16; 8 rbp+16"},
	/* push rbp; mov rbp, rsp; dec r14; jle, out of the function; leave; ret */
	{"code that all functions share works for the frame of this one",
	 BYTES("\x55\x48\x89\xe5\x49\xff\xce\x0f\x8e\x00\x10\x00\x00\xc9\xc3"), .function = true,
	 .expected = "0 rsp+8; 1 rsp+16; 4 rbp+16; e rsp+8"},
	{"the same, where it is not known that a function begins",
	 BYTES("\x55\x48\x89\xe5\x49\xff\xce\x0f\x8e\x00\x10\x00\x00\xc9\xc3"), .wanted = 7,
	 .expected = "0 rsp+8!; 1 rsp+16!; 4 rbp+16!"},
	{"no frame record, and what cannot be followed", BYTES("\x48\x83\xec\x08\xe9\x00\x10\x00\x00"),
	 .function = true, .expected = "0 refused"},
	{"the runtime vouches for the frame pointer", BYTES("\x48\x83\xec\x08\xe9\x00\x10\x00\x00"),
	 .function = true, .frame_pointer = true, .expected = "0 rbp+16"},
	/* push rbp; mov rbp, rsp; jmp *rbx; padding; where that leads: push rax; pop rax; jmp *rbx */
	{"nothing else begins in it",
	 BYTES("\x55\x48\x89\xe5\xff\xe3\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\x50\x58\xff\xe3"),
	 .function = true, .single = true, .wanted = 17, .expected = "0 rsp+8!; 1 rsp+16!; 4 rbp+16!"},
	/* push 0; call rcx; mov rsp, rbp; pop rbp; cmp eax, 1; je +1; ret; ret; nop; jmp rbx */
	{"a function that is entered with the frame record of another one, which it replaces",
	 BYTES("\x6a\x00\xff\xd1\x48\x8b\xe5\x5d\x83\xf8\x01\x74\x01\xc3\xc3\x90\xff\xe3"), .function = true,
	 .single = true, .wanted = 3, .expected = "0 rbp+16!; 8 rsp+8!; f rbp+16!"},
	/* mov ebx, 32; mov r12, imm64; call; push rax; nop; leave; ret */
	{"one whose frame record others make is not such a function",
	 BYTES("\xbb\x20\x00\x00\x00\x49\xbc\x01\x02\x03\x04\x05\x06\x00\x00\xe8\x00\x10\x00\x00"
	       "\x50\x90\xc9\xc3"),
	 .function = true, .single = true, .wanted = 21, .expected = "0 rsp+8!; 14 rbp+16!; 17 rsp+8!"},
	/* push rax; pop rax; ret */
	{"a function without a frame record", BYTES("\x50\x58\xc3"), .function = true, .single = true,
	 .expected = "0 rsp+8!; 1 rsp+16!; 2 rsp+8!"},
	{"a function that returns, at an aligned address",
	 BYTES("\x53\x90\x90\x90\x5b\xc3\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\x55\x90\x5d\xc3"),
	 .wanted = 2, .expected = "0 rsp+8!; 1 rsp+16!; 5 rsp+8!; 11 rsp+16!; 13 rsp+8!"},
	{"a frame record at an aligned address, in code that does not return",
	 BYTES("\x55\x48\x8b\xec\x48\x83\xec\x10\x90\xe9\xfb\xff\xff\xff"), .wanted = 9,
	 .expected = "0 rsp+8!; 1 rsp+16!; 4 rbp+16!"},
	/* lea r10, [rsp + 8]; and rsp, -64; push [r10 - 8]; push rbp; mov rbp, rsp; jmp */
	{"the frame record of an aligned stack is not the caller's",
	 BYTES("\x4c\x8d\x54\x24\x08\x48\x83\xe4\xc0\x41\xff\x72\xf8\x55\x48\x89\xe5\x90\xe9\xfb\xff\xff"
	       "\xff"),
	 .wanted = 17, .expected = "0 refused"},
	/* ud2; jmp rbx; push rbp; mov rbp, rsp; call rsi */
	{"several functions are listed as one; a return address",
	 BYTES("\x0f\x0b\xff\xe3\x55\x48\x8b\xec\xff\xd6\xe9\x00\x10\x00\x00"), .function = true, .wanted = 9,
	 .expected = "0 rsp+8; 2 pending; 4 rsp+8!; 5 rsp+16!; 8 rbp+16!"},
	/* push rbp; mov rbp, rsp; call *[r13 + 8]; int3; jmp; 7 bytes of padding; add; cmp; jb; jmp *rbx */
	{"the head of a loop is aligned, behind a jump into the loop",
	 BYTES("\x55\x48\x89\xe5\x41\xff\x55\x08\xcc\xe9\x07\x00\x00\x00\x0f\x1f\x80\x00\x00\x00\x00"
	       "\x49\x83\xc7\x01\x49\x81\xff\xd0\x07\x00\x00\x72\xf3\xff\xe3"),
	 .wanted = 32, .expected = "0 rsp+8!; 1 rsp+16!; 4 rbp+16!"},
	/* xor eax, eax; then the same, so that the analysis knows it up to the trap; jmp *rbx */
	{"the middle of a function is entered, behind a trap",
	 BYTES("\x55\x48\x89\xe5\x41\xff\x55\x08\xcc\x49\x83\xc7\x01\x48\x83\xec\x10\xff\xd1\x48\x01\xd8"
	       "\xff\xe3"),
	 .wanted = 19, .expected = "0 rsp+8!; 1 rsp+16!; 4 rbp+16!"},
	/* the same with a longer jump: the tail call of another function */
	{"padding behind a tail call",
	 BYTES("\x55\x48\x89\xe5\x41\xff\x55\x08\xcc\xe9\x07\x10\x00\x00\x0f\x1f\x80\x00\x00\x00\x00"
	       "\x49\x83\xc7\x01\x49\x81\xff\xd0\x07\x00\x00\x72\xf3\xff\xe3"),
	 .wanted = 32, .expected = "0 refused"},
	/* mov ebx, 32; mov r12, imm64; call; push rax; mov rax, [rbp - 8]; push rax; jmp to the mov */
	{"others make the frame record of a function, which never ends",
	 BYTES("\xbb\x20\x00\x00\x00\x49\xbc\x01\x02\x03\x04\x05\x06\x00\x00\xe8\x00\x10\x00\x00"
	       "\x50\x48\x8b\x45\xf8\x50\xeb\xf9\xcc\xcc"),
	 .wanted = 22, .expected = "0 rsp+8!; 14 rbp+16!; 1c pending"},
	/* the same with call *[r13 + 0x4c50] */
	{"the same, through a table",
	 BYTES("\xbb\x20\x00\x00\x00\x49\xbc\x01\x02\x03\x04\x05\x06\x00\x00\x41\xff\x95\x50\x4c\x00\x00"
	       "\x50\x48\x8b\x45\xf8\x50\xeb\xf9\xcc\xcc"),
	 .wanted = 24, .expected = "0 rsp+8!; 16 rbp+16!; 1e pending"},
	/* xor ebx, ebx; mov r12, imm64; call; nop; jmp out */
	{"the same of a function without words of its own",
	 BYTES("\x33\xdb\x49\xbc\x01\x02\x03\x04\x05\x06\x00\x00\xe8\x00\x10\x00\x00\x90\xe9\x00\x10\x00\x00"
	       "\xcc"),
	 .wanted = 17, .expected = "0 rsp+8!; 11 rbp+16!; 17 pending"},
	{"the same, listed",
	 BYTES("\xbb\x20\x00\x00\x00\x49\xbc\x01\x02\x03\x04\x05\x06\x00\x00\xe8\x00\x10\x00\x00"
	       "\x50\x48\x8b\x45\xf8\x50\xeb\xf9"),
	 .function = true, .wanted = 22, .expected = "0 rsp+8; 14 rbp+16"},
	/*
	 * push rax; cmp eax, 1; je to leave; lea r10, [rip + 8]; jmp *[r10 + rax * 8]; nop; two words, to the
	 * nop and to leave; nop; int3; nop; leave; ret; push rax; jmp out; padding; another function
	 */
	{"a function with a table of jumps, and behind its end",
	 BYTES("\xbb\x20\x00\x00\x00\x49\xbc\x01\x02\x03\x04\x05\x06\x00\x00\xe8\x00\x10\x00\x00"
	       "\x50\x83\xf8\x01\x74\x23\x4c\x8d\x15\x08\x00\x00\x00\x43\xff\x24\xc2\x90\x90\x90"
	       "\x38\x10\x00\x00\x00\x7f\x00\x00\x3d\x10\x00\x00\x00\x7f\x00\x00\x90\x90\x90\xcc"
	       "\x90\xc9\xc3\x50\xe9\x00\x10\x00\x00\xcc\xcc\xcc\x00\x00\x00\x00\x00\x00\x00\x00"
	       "\x53\x90\x5b\xc3"),
	 .wanted = 60,
	 .expected =
		 "0 rsp+8!; 14 rbp+16!; 3e rsp+8!; 3f rbp+16!; 45 pending; 50 rsp+8!; 51 rsp+16!; 53 rsp+8!"},
	/* the same beginning; mov rbp, rax; nop */
	{"a function whose frame record others make, and that gives it up",
	 BYTES("\xbb\x20\x00\x00\x00\x49\xbc\x01\x02\x03\x04\x05\x06\x00\x00\xe8\x00\x10\x00\x00"
	       "\x50\x48\x89\xc5\x90\x90\x90\x90\xeb\xfa"),
	 .wanted = 25, .expected = "0 rsp+8!; 14 rbp+16!; 15 refused"},
	/* jmp +7; cmp edi, 0; je; jmp *rbx; push rbp; mov rbp, rsp; push rdi; jmp back; leave; ret */
	{"a regular expression makes its frame record behind the rest",
	 BYTES("\xe9\x07\x00\x00\x00\x83\xff\x00\x74\x0a\xff\xe3\x55\x48\x89\xe5\x57\xeb\xf2\x90\x48\x89\xec"
	       "\x5d\xc3\xcc"),
	 .wanted = 10,
	 .expected = "0 rsp+8!; 5 rbp+16!; c rsp+8!; d rsp+16!; 10 rbp+16!; 18 rsp+8!; 19 pending"},
	/* the same without the jump back */
	{"a jump to another function, behind one that ends nowhere",
	 BYTES("\xe9\x07\x00\x00\x00\x83\xff\x00\x74\xfb\xff\xe3\x55\x48\x89\xe5\x57\xeb\xfd\x90\x48\x89\xec"
	       "\x5d\xc3\xcc"),
	 .wanted = 10, .expected = "0 refused"},
	/* the same with the jump back, and padding before the record */
	{"a jump to another function, behind padding",
	 BYTES("\xe9\x0b\x00\x00\x00\x83\xff\x00\x74\xfb\xff\xe3\xcc\xcc\xcc\xcc\x55\x48\x89\xe5\x57\xeb\xee"
	       "\x90"
	       "\xff\xe3\xcc\xcc"),
	 .wanted = 10, .expected = "0 refused"},
	/*
	 * Data, as instructions: push rcx; inc eax, seven times; add [rax - 117], cl; pop rcx; clc, in step
	 * again. The function: mov rbx, [rcx - 8]; push rbp; mov rbp, rsp; nop; leave; ret
	 */
	{"data before a function seem to be its beginning",
	 BYTES("\x51\xff\xc0\xff\xc0\xff\xc0\xff\xc0\xff\xc0\xff\xc0\xff\xc0\x00"
	       "\x48\x8b\x59\xf8\x55\x48\x89\xe5\x90\xc9\xc3"),
	 .wanted = 24, .expected = "0 pending; 10 rsp+8!; 15 rsp+16!; 18 rbp+16!; 1a rsp+8!"},
	/* push rbp; mov rbp, rsp; push rax; jmp out, with the frame; inc eax, four times; jmp out */
	{"nothing begins inside of a function that cannot be followed",
	 BYTES("\x55\x48\x89\xe5\x50\xe9\x00\x10\x00\x00\xff\xc0\xff\xc0\xff\xc0\xff\xc0\xe9\x00\x10\x00"
	       "\x00"),
	 .wanted = 17, .expected = "0 rsp+8!; 1 rsp+16!; 4 rbp+16!"},
	/*
	 * The same beginning; jmp *[rcx + rax * 8]; two addresses, of the pop and of the inc; pop rax, three
	 * times; inc eax; jmp out; padding; another function, of which nothing is known
	 */
	{"up to its end, behind a table of jumps",
	 BYTES("\x55\x48\x89\xe5\x50\xff\x24\xc1\x18\x10\x00\x00\x00\x7f\x00\x00\x1b\x10\x00\x00\x00\x7f\x00"
	       "\x00"
	       "\x58\x58\x58\xff\xc0\xe9\x00\x10\x00\x00\xcc\xcc\xff\xe3"),
	 .wanted = 28, .expected = "0 rsp+8!; 1 rsp+16!; 4 rbp+16!; 22 pending"},
	/* push rbp; mov rbp, rsp; push rax; inc eax; no instruction */
	{"what ran belongs to the function, though it is unknown",
	 BYTES("\x55\x48\x89\xe5\x50\xff\xc0\x06\x06"), .wanted = 7,
	 .expected = "0 rsp+8!; 1 rsp+16!; 4 rbp+16!; 8 pending"},
	{"no instruction", BYTES("\x06\x06\x06\x06"), .wanted = 0, .expected = "0 refused"},
	{"only what ran is refused",
	 BYTES("\x06\x06\x06\x06\x06\x06\x06\x06\x06\x06\x06\x06\x06\x06\x06\x06\x53\x90\x5b\xc3\xcc\xcc\xcc"
	       "\xcc\xcc\xcc\xcc\xcc\xcc"
	       "\xcc\xcc\xcc\x06\x06"),
	 .wanted = 33, .expected = "0 pending; 10 rsp+8!; 11 rsp+16!; 13 rsp+8!; 20 refused"},
};

static void format(struct buf *out, const struct memory_rows *rows)
{
	for (size_t i = 0; i < rows->n; i++) {
		const struct elf_rule *r = &rows->v[i].rule;
		char text[RULE_FORMAT_MAX];

		rule_format_cfa(text, EM_X86_64, r);
		buf_printf(out, "%s%x %s%s", i ? "; " : "", rows->v[i].off,
			   r->cfa_kind != CFA_NONE	   ? text
			   : r->cfa_off == NO_RULE_REFUSED ? "refused"
							   : "pending",
			   r->flags & RULE_CHECKED ? "!" : "");
	}
}

Test(memory_rows, of_bytes)
{
	ONLY_ON_X86_64("the code");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct memory_case *c = &cases[i];
		const struct memory_code code = {.va = VA,
						 .code = (const uint8_t *)c->code.data,
						 .n = (uint32_t)c->code.len,
						 .function = c->function,
						 .frame_pointer = c->frame_pointer,
						 .single = c->single,
						 .wanted = c->wanted};
		_cleanup_(memory_rows_fini) struct memory_rows rows = {0};
		_cleanup_buf_ struct buf out = {0};

		cr_assert_eq(memory_rows_make(&rows, &code), 0, "%s", c->name);
		format(&out, &rows);
		cr_expect_str_eq(buf_str(&out), c->expected, "%s: %s", c->name, buf_str(&out));
	}
}

Test(memory_rows, limits)
{
	static const uint8_t code[MEMORY_CODE_MAX + 1];
	struct memory_rows rows = {0};

	cr_expect_eq(memory_rows_make(&rows, &(struct memory_code){.va = VA, .code = code}), -EFBIG);
	cr_expect_eq(memory_rows_make(&rows, &(struct memory_code){.va = VA, .code = code, .n = sizeof code}),
		     -EFBIG);
	cr_expect_eq(
		memory_rows_make(&rows, &(struct memory_code){.va = VA, .code = code, .n = sizeof code - 1}),
		0);
	memory_rows_fini(&rows);
	cr_expect_null(rows.v);
}
