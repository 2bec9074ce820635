// SPDX-License-Identifier: Apache-2.0
/* Derives rows from instructions alone; contradicting code has none. */
#include "agent/elf/code/asmrows.h"

#include <stdlib.h>

#include "agent/elf/code/starts.h"
#include "tests/unit/agent/elf/cfi_bytes.h"

/* The table of the piece at 0x1000 as text, with offsets in it; or "nothing". */
static const char *rows_of_piece(const struct code_piece *piece, struct buf *out)
{
	struct elf_rows *t = NULL;
	struct row_spans spans = {0};

	cr_assert_eq(row_spans_init(&spans, NULL, 0), 0);
	cr_assert_eq(asmrows_read_piece(&spans, piece), 0);
	int r = row_spans_lay_out(&spans, &t);
	for (size_t i = 0; r == 0 && i < t->n_rows; i++) {
		const struct elf_rule *rule = &t->rules[t->rows[i].rule];
		char cfa[RULE_FORMAT_MAX], fp[RULE_FORMAT_MAX];

		rule_format_cfa(cfa, EM_X86_64, rule);
		rule_format_fp(fp, EM_X86_64, rule);
		buf_printf(out, "%s%x %s", i ? "; " : "", (unsigned)(t->rows[i].va - 0x1000), cfa);
		if (rule->cfa_kind != CFA_NONE)
			buf_printf(out, " %s%s", fp, rule->flags & RULE_CHECKED ? ", checked" : "");
	}
	elf_rows_free(t);
	row_spans_fini(&spans);
	return r == -ENODATA ? "nothing" : buf_str(out);
}

/* The same of `code`, behind which so many bytes of code are analysed as another piece. */
static const char *rows_before(uint64_t behind, const struct bytes *code, struct buf *out)
{
	const struct code_piece piece = {.va = 0x1000,
					 .code = (const uint8_t *)code->data,
					 .n = (uint32_t)code->len,
					 .behind = behind};

	return rows_of_piece(&piece, out);
}

static const char *rows_of(const struct bytes *code, struct buf *out)
{
	return rows_before(0, code, out);
}

static const struct {
	const char *name;
	struct bytes code;
	const char *expected;
} cases[] = {
	{"leaf", BYTES("\x0f\x58\xc1\xc3"), "0 rsp+8 same; 4 none"},
	{"pushes, sum, rbp reused: push rbx, rbp; sub 16; xor ebp; add 16; pop rbp, rbx; ret",
	 BYTES("\x53\x55\x48\x83\xec\x10\x31\xed\x48\x83\xc4\x10\x5d\x5b\xc3"),
	 "0 rsp+8 same; 1 rsp+16 same; 2 rsp+24 cfa-24; 6 rsp+40 cfa-24; c rsp+24 cfa-24; d rsp+16 "
	 "same; "
	 "e rsp+8 same; f none"},
	{"libjpeg-turbo: push rbp; mov rax, rsp; sub 4; and; mov [rsp], rax; mov rbp, rsp; lea rsp, "
	 "[rbp - 64]; "
	 "mov rsp, rbp; pop rsp; pop rbp; ret",
	 BYTES("\x55\x48\x89\xe0\x48\x83\xec\x04\x48\x83\xe4\xe0\x48\x89\x04\x24\x48\x89\xe5\x48\x8d"
	       "\x65"
	       "\xc0"
	       "\x48\x89\xec\x5c\x5d\xc3"),
	 "0 rsp+8 same; 1 rsp+16 cfa-16; 8 rsp+20 cfa-16; c rax+16 cfa-16; 10 *(rsp+0)+16 cfa-16; "
	 "13 *(rbp+0)+16 cfa-16; 1b rsp+16 cfa-16; 1c rsp+8 same; 1d none"},
	{"x86inc, in memory: push rbx; mov rbx, rsp; and; sub 256; mov [rsp + 128], rbx; xor ebx; "
	 "mov rsp, [rsp + "
	 "128]; pop rbx; ret",
	 BYTES("\x53\x48\x89\xe3\x48\x83\xe4\xc0\x48\x81\xec\x00\x01\x00\x00\x48\x89\x9c\x24\x80\x00"
	       "\x00"
	       "\x00\x31\xdb"
	       "\x48\x8b\xa4\x24\x80\x00\x00\x00\x5b\xc3"),
	 "0 rsp+8 same; 1 rsp+16 same; 8 rbx+16 same; 17 *(rsp+128)+16 same; 21 rsp+16 same; 22 "
	 "rsp+8 same; 23 none"},
	{"x86inc, in a register: mov r11, rsp; and; sub 64; xor eax; mov rsp, r11; ret",
	 BYTES("\x49\x89\xe3\x48\x83\xe4\xe0\x48\x83\xec\x40\x31\xc0\x4c\x89\xdc\xc3"),
	 "0 rsp+8 same; 7 r11+8 same; 10 rsp+8 same; 11 none"},
	{"a frame pointer: push rbp; mov rbp, rsp; call away; and rsp; leave; ret",
	 BYTES("\x55\x48\x89\xe5\xe8\x00\x10\x00\x00\x48\x83\xe4\xf0\xc9\xc3"),
	 "0 rsp+8 same; 1 rsp+16 cfa-16; 4 rbp+16 cfa-16; e rsp+8 same; f none"},
	{"a function that is called drops its arguments: push rbp; mov rbp, rsp; push rsi; push rax; call "
	 "away; mov rax, "
	 "[rbp - 8]; mov rsp, rbp; pop rbp; ret",
	 BYTES("\x55\x48\x89\xe5\x56\x50\xe8\x00\x10\x00\x00\x48\x8b\x45\xf8\x48\x8b\xe5\x5d\xc3"),
	 "0 rsp+8 same; 1 rsp+16 cfa-16; 4 rbp+16 cfa-16; 13 rsp+8 same; 14 none"},
	/*
	 * The first function: pop rcx; push rax; push rcx; jmp to the second. The second: push rbx;
	 * call away; pop rbx; ret
	 */
	{"arguments below a return address that is popped, and then a jump to another function",
	 BYTES("\x59\x50\x51\xeb\x0b\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\x53\xe8\x00\x10\x00\x00\x5b"
	       "\xc3"),
	 "0 rsp+8 same; 1 rsp+0 same; 3 rsp+8 same; 11 rsp+16 same; 17 rsp+8 same; 18 none"},
	/* push rax; push [rsp + 8]; mov [rsp + 16], rdx; jmp to the second */
	{"the same, where the return address is copied",
	 BYTES("\x50\xff\x74\x24\x08\x48\x89\x54\x24\x10\xeb\x04\xcc\xcc\xcc\xcc\x53\xe8\x00\x10\x00\x00\x5b"
	       "\xc3"),
	 "10 rsp+8 same; 11 rsp+16 same; 17 rsp+8 same; 18 none"},
	{"rbp saved by a store, then a jump away",
	 BYTES("\x48\x83\xec\x18\x48\x89\x6c\x24\x08\x31\xed\x48\x8b\x6c\x24\x08\x48\x83\xc4\x18\xe9"
	       "\xe7"
	       "\xef\xff\xff"),
	 "0 rsp+8 same; 4 rsp+32 same; 9 rsp+32 cfa-24; 10 rsp+32 same; 14 rsp+8 same; 19 none"},
	{"the frame of its caller is made: pop r15; push rbp; mov rbp, rsp; push rsi; push r15; ret",
	 BYTES("\x41\x5f\x55\x48\x89\xe5\x56\x41\x57\xc3"),
	 "0 rsp+8 same; 2 rsp+0 same; 9 rsp+8 same; a none"},
	{"arguments are dropped: ret 24", BYTES("\xc2\x18\x00"), "0 rsp+8 same; 3 none"},
	{"from the middle of an instruction on: rorb [rax - 117]; and dh, dh; ret 0xf01",
	 BYTES("\xc0\x48\x8b\x55\x20\xf6\xc2\x01\x0f"), "nothing"},
	{"rbp lost: xor ebp; ret", BYTES("\x31\xed\xc3"), "0 rsp+8 same; 2 rsp+8 undef; 3 none"},
	{"a loop, a function behind padding",
	 BYTES("\x53\xff\xc9\x75\xfc\x5b\xc3\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\x50\x58\xc3"),
	 "0 rsp+8 same; 1 rsp+16 same; 6 rsp+8 same; 11 rsp+16 same; 12 rsp+8 same; 13 none"},
	{"endbr64 begins a function",
	 BYTES("\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\xf3\x0f\x1e\xfa"
	       "\xc3"),
	 "10 rsp+8 same; 15 none"},
	{"the return does not fit: push rbx; ret", BYTES("\x53\xc3"), "nothing"},
	{"ways disagree: test; je over; push rbx; over: pop rbx; ret", BYTES("\x85\xff\x74\x01\x53\x5b\xc3"),
	 "nothing"},
	{"a trampoline out of a signal handler: mov eax, 15; syscall, then no function",
	 BYTES("\xb8\x0f\x00\x00\x00\x0f\x05\xc3"), "0 signal *(rsp+120); 7 none"},
	{"mov rax, 15; syscall, in padding", BYTES("\xcc\xcc\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05\xcc"),
	 "1 signal *(rsp+120); b none"},
	{"a trampoline right behind a function: ret; mov eax, 15; syscall",
	 BYTES("\xc3\xb8\x0f\x00\x00\x00\x0f\x05"), "0 rsp+8 same; 1 signal *(rsp+120); 8 none"},
	{"a trampoline behind a function and padding", BYTES("\xc3\xcc\xcc\xb8\x0f\x00\x00\x00\x0f\x05"),
	 "0 rsp+8 same; 2 signal *(rsp+120); a none"},
	{"a trampoline behind code that is not known",
	 BYTES("\x06\x06\x06\x06\x06\x06\x06\x06\x06\x06\x06\x06\x06\x06\x06\x06\x06\x48\xc7\xc0\x0f"
	       "\x00\x00\x00\x0f\x05"),
	 "11 signal *(rsp+120); 1a none"},
	{"no way out is seen: jmp rax", BYTES("\xff\xe0"), "nothing"},
	{"a jump through the GOT is one to another function", BYTES("\xff\x25\x00\x00\x00\x00"),
	 "0 rsp+8 same; 6 none"},
	{"no way out is seen: ud2", BYTES("\x0f\x0b"), "nothing"},
	{"a jump away with a frame", BYTES("\x53\xe9\x00\x10\x00\x00"), "nothing"},
	{"runs out of the gap", BYTES("\x53\x5b"), "nothing"},
	{"not an instruction", BYTES("\x53\x06\x5b\xc3"), "nothing"},
	{"cut instruction", BYTES("\xc5\xf8"), "nothing"},
	{"the stack pointer from nowhere", BYTES("\x48\x89\xfc\xc3"), "nothing"},
	{"a call of a function that enlarges its caller's frame: push rbp; mov rbp, rsp; sub 16; call; "
	 "leave; "
	 "ret; alloca: pop rdx; sub rsp, rdi; push rdx; ret",
	 BYTES("\x55\x48\x89\xe5\x48\x83\xec\x10\xe8\x03\x00\x00\x00\xc9\xc3\xcc\x5a\x48\x29\xfc\x52\xc3"),
	 "0 rsp+8 same; 1 rsp+16 cfa-16; 4 rbp+16 cfa-16; e rsp+8 same; 11 rsp+0 same; "
	 "15 rsp+8 same; 16 none"},
	{"the same with a branch over the change, behind which both ways meet",
	 BYTES("\x55\x48\x89\xe5\x48\x83\xec\x10\xe8\x03\x00\x00\x00\xc9\xc3\xcc\x5a\x85\xff\x74\x03\x48\x29"
	       "\xfc\x52"
	       "\xc3"),
	 "0 rsp+8 same; 1 rsp+16 cfa-16; 4 rbp+16 cfa-16; e rsp+8 same; 11 rsp+0 same; "
	 "19 rsp+8 same; 1a none"},
	{"a function that pops its return address and pushes it again (vfork of musl): push rbx; call; pop "
	 "rbx; "
	 "ret; pop rdx; xor eax; push rdx; ret",
	 BYTES("\x53\xe8\x0a\x00\x00\x00\x5b\xc3\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\x5a\x31\xc0\x52\xc3"),
	 "0 rsp+8 same; 1 rsp+16 same; 7 rsp+8 same; 11 rsp+0 same; 14 rsp+8 same; 15 none"},
	{"the table of a switch inside: push rbx; jmp rax, and its cases, aligned",
	 BYTES("\x53\xff\xe0\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\x5b\xc3"),
	 "0 rsp+8 same; 1 rsp+16 same; 11 rsp+8 same; 12 none"},
};

Test(asmrows, functions)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_buf_ struct buf out = {0};

		cr_expect_str_eq(rows_of(&cases[i].code, &out), cases[i].expected, "%s: %s", cases[i].name,
				 buf_str(&out));
	}
}

/*
 * Of functions that certainly begin at 0. Behind push rbp; mov rbp, rsp; sub rsp, rax, the stack pointer is
 * not known, and where rbp is the caller's again, nothing but what follows says what the frame is.
 */
#define MADE "\x55\x48\x89\xe5\x48\x29\xc4"
#define ROWS "0 rsp+8 same; 1 rsp+16 cfa-16; 4 rbp+16 cfa-16; "
static const struct {
	const char *name;
	struct bytes code;
	const char *expected;
} lost[] = {
	{"the frame is given up before a jump: mov rbp, [rbp]; mov r12, r11; add rsp, 88; jmp rcx",
	 BYTES(MADE "\x48\x8b\x6d\x00\x4d\x89\xdc\x48\x83\xc4\x58\xff\xe1"),
	 ROWS "b rsp+96 same, checked; 12 rsp+8 same, checked; 14 none"},
	{"the code is that of an object: mov rbp, [rbp]; jne; mov rcx, [rcx + 39]; jmp r9",
	 BYTES(MADE "\x48\x8b\x6d\x00\x75\x00\x4c\x8b\x49\x27\x41\xff\xe1"),
	 ROWS "b rsp+8 same, checked; 14 none"},
	{"the code is in a table of structures: mov rbp, [rdi]; shl ecx, 4; mov rcx, [r10 + rcx]; jmp rcx",
	 BYTES(MADE "\x48\x8b\x2f\xc1\xe1\x04\x49\x8b\x0c\x0a\xff\xe1"),
	 ROWS "a rsp+8 same, checked; 13 none"},
	{"through another register: mov rbp, [rbp]; mov rcx, r8; add rsp, 88; jmp rcx",
	 BYTES(MADE "\x48\x8b\x6d\x00\x4c\x89\xc1\x48\x83\xc4\x58\xff\xe1"),
	 ROWS "b rsp+96 same, checked; 12 rsp+8 same, checked; 14 none"},
	{"behind an object's header: mov rbp, [rdi]; mov rcx, [rcx + 39]; add rcx, 63; jmp rcx",
	 BYTES(MADE "\x48\x8b\x2f\x48\x8b\x49\x27\x48\x83\xc1\x3f\xff\xe1"),
	 ROWS "a rsp+8 same, checked; 14 none"},
	{"the code is in a table far inside a structure: mov rbp, [rdi]; mov rcx, [r13 + rcx * 8 + 17672]; "
	 "jmp rcx",
	 BYTES(MADE "\x48\x8b\x2f\x49\x8b\x8c\xcd\x08\x45\x00\x00\xff\xe1"),
	 ROWS "a rsp+8 same, checked; 14 none"},
	{"an interpreter reads the next instruction: mov rbp, [rdi]; mov rax, [rsi]; jmp rax",
	 BYTES(MADE "\x48\x8b\x2f\x48\x8b\x06\xff\xe0"), ROWS "a none; f none"},
	{"a table has the code: mov rbp, [rdi]; mov rax, [r15 + rax * 8]; jmp rax",
	 BYTES(MADE "\x48\x8b\x2f\x49\x8b\x04\xc7\xff\xe0"), ROWS "a none; 10 none"},
	{"the register has another value: mov rbp, [rbp]; mov rcx, [rcx + 39]; add rcx, rax; jmp rcx",
	 BYTES(MADE "\x48\x8b\x2f\x48\x8b\x49\x27\x48\x01\xc1\xff\xe1"), ROWS "a none; 13 none"},
	{"another stack: mov rbp, [rdi + 8]; mov rsp, [rdi]; mov rcx, [rdi + 16]; jmp rcx",
	 BYTES(MADE "\x48\x8b\x6f\x08\x48\x8b\x27\x48\x8b\x4f\x10\xff\xe1"), ROWS "b none; 14 none"},
	{"it returns: mov rbp, [rbp]; add rsp, 88; ret", BYTES(MADE "\x48\x8b\x6d\x00\x48\x83\xc4\x58\xc3"),
	 ROWS "b rsp+96 same; f rsp+8 same; 10 none"},
};

Test(asmrows, ends_of_functions_where_the_frame_is_lost)
{
	struct code_start start = {.va = 0x1000, .certain = true};
	const struct code_starts starts = {.v = &start, .n = 1};

	for (size_t i = 0; i < ARRAY_SIZE(lost); i++) {
		const struct code_piece piece = {.va = 0x1000,
						 .code = (const uint8_t *)lost[i].code.data,
						 .n = (uint32_t)lost[i].code.len,
						 .starts = &starts};
		_cleanup_buf_ struct buf out = {0};

		cr_expect_str_eq(rows_of_piece(&piece, &out), lost[i].expected, "%s: %s", lost[i].name,
				 buf_str(&out));
	}
}

/* push rbx; test edi; jne away; pop rbx; ret. And one that only jumps away. */
Test(asmrows, parts_in_another_piece)
{
	const struct bytes part = BYTES("\x53\x85\xff\x0f\x85\x00\x10\x00\x00\x5b\xc3"),
			   jump = BYTES("\x31\xff\xe9\x00\x10\x00\x00");
	_cleanup_buf_ struct buf out = {0}, no_part = {0}, tail = {0}, no_tail = {0};

	cr_expect_str_eq(rows_before(0x10000, &part, &out),
			 "0 rsp+8 same; 1 rsp+16 same; a rsp+8 same; b none",
			 "the jump may lead to a part of the function");
	cr_expect_str_eq(rows_before(0, &part, &no_part), "nothing");
	cr_expect_str_eq(rows_before(0x10000, &jump, &tail), "nothing",
			 "a jump that may lead to a part proves nothing");
	cr_expect_str_eq(rows_before(0, &jump, &no_tail), "0 rsp+8 same; 7 none");
}

/* For any bytes, the analysis ends, and its rows are inside the code. */
/* What is known already stays; the rest has no rows. */
Test(asmrows, no_time_is_left)
{
	enum { FUNCTIONS = 8192, BYTES_EACH = 16 };
	static const uint8_t leaf[] = {0x0f, 0x58, 0xc1, 0xc3};
	uint8_t *code = malloc((size_t)FUNCTIONS * BYTES_EACH);
	size_t covered[2] = {0};

	cr_assert(code);
	memset(code, 0xcc, (size_t)FUNCTIONS * BYTES_EACH);
	for (size_t i = 0; i < FUNCTIONS; i++)
		memcpy(code + i * BYTES_EACH, leaf, sizeof leaf);
	for (int late = 0; late < 2; late++) {
		struct row_spans spans = {0};
		const struct code_piece piece = {
			.va = 0x1000, .code = code, .n = FUNCTIONS * BYTES_EACH, .until_ns = late ? 1 : 0};

		cr_assert_eq(row_spans_init(&spans, NULL, 0), 0);
		cr_assert_eq(asmrows_read_piece(&spans, &piece), 0);
		for (size_t i = 0; i < spans.n; i++)
			covered[late] +=
				spans.out.rows[spans.v[i].first].rule ? spans.v[i].end - spans.v[i].start : 0;
		row_spans_fini(&spans);
	}
	cr_expect_eq(covered[0], FUNCTIONS * sizeof leaf);
	cr_expect_gt(covered[1], 0u);
	cr_expect_lt(covered[1], covered[0] / 2);
	free(code);
}

Test(asmrows, random_bytes)
{
	uint64_t x = 88172645463325252ull;

	for (int round = 0; round < 300; round++) {
		_cleanup_buf_ struct buf out = {0};
		const char *text, *last;
		uint8_t code[512];

		for (size_t i = 0; i < sizeof(code); i++) {
			x ^= x << 13, x ^= x >> 7, x ^= x << 17;
			code[i] = round % 2 ? (uint8_t)(x >> 32)
					    : "\x53\x5b\xc3\x90\x75\xeb\x48\x89\xe5\x55\x5d\xc9"[x % 12];
		}
		text = rows_of(&(struct bytes){(const char *)code, sizeof(code)}, &out);
		last = strrchr(text, ';');
		cr_expect(strcmp(text, "nothing") == 0 || (last && strstr(last, " none") &&
							   strtoul(last + 1, NULL, 16) <= sizeof(code)),
			  "round %d: %s", round, text);
	}
}
