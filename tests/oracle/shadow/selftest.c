// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/shadow/selftest.h"

#include <stdio.h>

#include "agent/base/cleanup.h"
#include "tests/oracle/shadow/shadow.h"

static unsigned failures;

static void expect(bool ok, const char *what)
{
	if (ok)
		return;
	failures++;
	printf("FAIL: %s\n", what);
}

static const struct {
	const char *what;
	uint8_t code[INSN_BYTES];
	uint8_t len;
	enum insn_kind kind;
} instructions[] = {
	{"call rel32", {0xe8, 1, 2, 3, 4}, 5, INSN_CALL},
	{"bnd call", {0xf2, 0xe8, 1, 2, 3, 4}, 6, INSN_CALL},
	{"addr32 call", {0x67, 0xe8, 1, 0, 0, 0}, 6, INSN_CALL},
	{"call the next instruction", {0xe8, 0, 0, 0, 0}, 5, INSN_OTHER},
	{"call *rax", {0xff, 0xd0}, 2, INSN_CALL},
	{"call *r11", {0x41, 0xff, 0xd3}, 3, INSN_CALL},
	{"notrack call *8(rax)", {0x3e, 0xff, 0x50, 8}, 4, INSN_CALL},
	{"jmp *rip", {0xff, 0x25, 1, 2, 3, 4}, 6, INSN_JUMP},
	{"notrack jmp *rdx", {0x3e, 0xff, 0xe2}, 3, INSN_JUMP},
	{"push (rax)", {0xff, 0x30}, 2, INSN_OTHER},
	{"inc eax", {0xff, 0xc0}, 2, INSN_OTHER},
	{"ret", {0xc3}, 1, INSN_RET},
	{"rep ret", {0xf3, 0xc3}, 2, INSN_RET},
	{"ret 16", {0xc2, 16, 0}, 3, INSN_RET},
	{"syscall", {0x0f, 0x05}, 2, INSN_SYSCALL},
	{"nop", {0x0f, 0x1f, 0x00}, 3, INSN_OTHER},
	{"pop rdi", {0x5f}, 1, INSN_POP},
	{"pop r12", {0x41, 0x5c}, 2, INSN_POP},
	{"pop rsp", {0x5c}, 1, INSN_LOAD_SP},
	{"mov r8,rsp", {0x4c, 0x89, 0xc4}, 3, INSN_LOAD_SP},
	{"mov rbp,rsp", {0x48, 0x89, 0xec}, 3, INSN_OTHER},
	{"mov rsp,rbp", {0x48, 0x89, 0xe5}, 3, INSN_OTHER},
	{"mov rsp,r12", {0x49, 0x89, 0xe4}, 3, INSN_OTHER},
	{"mov 160(rdx),rsp", {0x48, 0x8b, 0xa2, 0xa0, 0, 0, 0}, 7, INSN_LOAD_SP},
	{"mov rsp,160(rdx)", {0x48, 0x89, 0xa2, 0xa0, 0, 0, 0}, 7, INSN_OTHER},
	{"mov 8(rdx),r12", {0x4c, 0x8b, 0x62, 8}, 4, INSN_OTHER},
	{"xchg rax,rsp", {0x48, 0x94}, 2, INSN_LOAD_SP},
	{"xchg rsp,(rax)", {0x48, 0x87, 0x20}, 3, INSN_LOAD_SP},
	{"leave", {0xc9}, 1, INSN_OTHER},
	{"cut short", {0x48}, 1, INSN_OTHER},
	{"nothing", {0}, 0, INSN_OTHER},
};

static void check_instructions(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(instructions); i++)
		expect(insn_kind_of(instructions[i].code, instructions[i].len) == instructions[i].kind,
		       instructions[i].what);
}

/* --- the stack of calls: each script ends with what the frame that executes has as its slot, 0: none */

struct event {
	enum insn_kind kind;
	uint64_t rip, rsp; /* after it */
	uint64_t top;	   /* the word there: of a call, and of a jump */
};

#define STACK 0x7ffff000ull
#define OTHER_STACK 0x10000000ull
#define A (STACK - 8)	/* slot of the first call */
#define B (STACK - 112) /* and of the second */

static const struct {
	const char *what;
	struct event events[8];
	uint64_t slot;
	size_t n; /* frames in the end */
} scripts[] = {
	{"call", {{INSN_CALL, 0x200, A, 0x101}}, A, 1},
	{"call, call",
	 {{INSN_CALL, 0x200, A, 0x101}, {INSN_OTHER, 0x201, B + 8, 0}, {INSN_CALL, 0x300, B, 0x202}},
	 B,
	 2},
	{"return", {{INSN_CALL, 0x200, A, 0x101}, {INSN_RET, 0x101, STACK, 0}}, 0, 0},
	{"tail call", {{INSN_CALL, 0x200, A, 0x101}, {INSN_JUMP, 0x300, A, 0}}, A, 1},
	{"call that faults", {{INSN_CALL, 0x100, STACK, 0}}, 0, 0},
	{"jump through the stack",
	 {{INSN_CALL, 0x200, A, 0x101}, {INSN_OTHER, 0x201, A - 8, 0}, {INSN_RET, 0x400, A, 0}},
	 A,
	 1},
	{"longjmp to the outer function, before its jump",
	 {{INSN_CALL, 0x200, A, 0x101},
	  {INSN_OTHER, 0x201, B + 8, 0},
	  {INSN_CALL, 0x300, B, 0x202},
	  {INSN_LOAD_SP, 0x301, B + 16, 0}},
	 B,
	 1},
	{"longjmp to the outer function",
	 {{INSN_CALL, 0x200, A, 0x101},
	  {INSN_OTHER, 0x201, B + 8, 0},
	  {INSN_CALL, 0x300, B, 0x202},
	  {INSN_LOAD_SP, 0x301, B + 16, 0},
	  {INSN_JUMP, 0x210, B + 16, 0}},
	 A,
	 1},
	{"vfork: the return address in a register",
	 {{INSN_CALL, 0x200, A, 0x101}, {INSN_POP, 0x201, STACK, 0}},
	 A,
	 1},
	{"vfork: pushed again, returned",
	 {{INSN_CALL, 0x200, A, 0x101},
	  {INSN_POP, 0x201, STACK, 0},
	  {INSN_OTHER, 0x202, A, 0},
	  {INSN_RET, 0x101, STACK, 0}},
	 0,
	 0},
	{"return by a jump",
	 {{INSN_CALL, 0x200, A, 0x101}, {INSN_POP, 0x201, STACK, 0}, {INSN_JUMP, 0x101, STACK, 0}},
	 0,
	 0},
	{"return by an address that was moved down, with arguments dropped",
	 {{INSN_CALL, 0x200, A, 0x101}, {INSN_OTHER, 0x201, A - 8, 0}, {INSN_RET, 0x101, STACK + 16, 0}},
	 0,
	 0},
	{"return by an address that was moved down",
	 {{INSN_CALL, 0x200, A, 0x101}, {INSN_OTHER, 0x201, A - 8, 0}, {INSN_RET, 0x101, A, 0}},
	 0,
	 0},
	{"a return address that was moved up, and a tail call",
	 {{INSN_OTHER, 0x100, A - 8, 0},
	  {INSN_CALL, 0x200, A - 16, 0x101},
	  {INSN_OTHER, 0x201, STACK, 0},
	  {INSN_OTHER, 0x202, A, 0},
	  {INSN_JUMP, 0x300, A, 0x101}},
	 A,
	 1},
	{"return by an address that was moved up, in recursion",
	 {{INSN_CALL, 0x200, A, 0x201},
	  {INSN_OTHER, 0x201, B + 8, 0},
	  {INSN_CALL, 0x200, B, 0x201},
	  {INSN_POP, 0x202, B + 8, 0},
	  {INSN_OTHER, 0x203, B + 24, 0},
	  {INSN_OTHER, 0x204, B + 16, 0},
	  {INSN_RET, 0x201, B + 24, 0}},
	 A,
	 1},
	{"another stack",
	 {{INSN_CALL, 0x200, A, 0x101}, {INSN_LOAD_SP, 0x201, OTHER_STACK, 0}},
	 OTHER_STACK,
	 1},
	{"another stack, a call there",
	 {{INSN_CALL, 0x200, A, 0x101},
	  {INSN_LOAD_SP, 0x201, OTHER_STACK, 0},
	  {INSN_CALL, 0x300, OTHER_STACK - 8, 0x202},
	  {INSN_RET, 0x202, OTHER_STACK, 0}},
	 OTHER_STACK,
	 1},
	{"another stack and back",
	 {{INSN_CALL, 0x200, A, 0x101},
	  {INSN_LOAD_SP, 0x201, OTHER_STACK, 0},
	  {INSN_CALL, 0x300, OTHER_STACK - 8, 0x202},
	  {INSN_RET, 0x202, OTHER_STACK, 0},
	  {INSN_LOAD_SP, 0x203, A - 16, 0}},
	 A,
	 1},
	{"back by another function",
	 {{INSN_CALL, 0x200, A, 0x101},
	  {INSN_LOAD_SP, 0x201, OTHER_STACK, 0},
	  {INSN_CALL, 0x300, OTHER_STACK - 8, 0x202},
	  {INSN_LOAD_SP, 0x301, A, 0},
	  {INSN_JUMP, 0x210, A, 0}},
	 A,
	 1},
	{"a stack with frames left over",
	 {{INSN_CALL, 0x200, A, 0x101},
	  {INSN_CALL, 0x300, A - 8, 0x202},
	  {INSN_CALL, 0x400, A - 16, 0x303},
	  {INSN_LOAD_SP, 0x401, OTHER_STACK, 0},
	  {INSN_JUMP, 0x500, OTHER_STACK, 0},
	  {INSN_LOAD_SP, 0x501, A, 0}},
	 A,
	 2},
	{"and a function of that other stack, back on it",
	 {{INSN_CALL, 0x200, A, 0x101},
	  {INSN_CALL, 0x300, A - 8, 0x202},
	  {INSN_LOAD_SP, 0x301, OTHER_STACK, 0},
	  {INSN_JUMP, 0x500, OTHER_STACK, 0},
	  {INSN_CALL, 0x600, OTHER_STACK - 8, 0x501},
	  {INSN_LOAD_SP, 0x601, A, 0},
	  {INSN_LOAD_SP, 0x602, OTHER_STACK - 8, 0}},
	 OTHER_STACK - 8,
	 1},
	{"another stack, entered by a return",
	 {{INSN_CALL, 0x200, A, 0x101},
	  {INSN_LOAD_SP, 0x201, OTHER_STACK, 0},
	  {INSN_OTHER, 0x202, OTHER_STACK - 8, 0},
	  {INSN_RET, 0x700, OTHER_STACK, 0}},
	 0,
	 0},
	{"back by a return",
	 {{INSN_CALL, 0x200, A, 0x101},
	  {INSN_OTHER, 0x201, B + 8, 0},
	  {INSN_CALL, 0x300, B, 0x202},
	  {INSN_LOAD_SP, 0x301, OTHER_STACK, 0},
	  {INSN_OTHER, 0x302, B, 0},
	  {INSN_RET, 0x202, B + 8, 0}},
	 A,
	 1},
	{"large frame", {{INSN_CALL, 0x200, A, 0x101}, {INSN_OTHER, 0x201, A - 5000000, 0}}, A, 1},
};

static void no_end(const struct shadow_frame *f, enum shadow_end how, const struct user_regs_struct *to,
		   void *data)
{
	(void)f, (void)how, (void)to, (void)data;
}

static void check_scripts(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(scripts); i++) {
		struct user_regs_struct from = {.rip = 0x100, .rsp = STACK}, to;
		struct shadow_frame *f;
		struct shadow s;
		bool ok = true;

		shadow_init(&s, no_end, NULL);
		s.now.rooted = true;
		for (size_t k = 0; k < ARRAY_SIZE(scripts[i].events) && scripts[i].events[k].rip; k++) {
			const struct event *e = &scripts[i].events[k];

			to = (struct user_regs_struct){.rip = e->rip, .rsp = e->rsp};
			ok = shadow_step(&s, e->kind, &from, &to, e->top) == 0 && ok;
			from = to;
		}
		f = shadow_current(&s);
		expect(ok && (f ? f->slot : 0) == scripts[i].slot && s.now.n == scripts[i].n,
		       scripts[i].what);
		shadow_fini(&s);
	}
}

static void check_signal(void)
{
	struct user_regs_struct main = {.rip = 0x100, .rsp = STACK, .rbp = 7},
				handler = {.rip = 0x900, .rsp = STACK - 1000, .rbp = 7};
	struct user_regs_struct trampoline = {.rip = 0x800, .rsp = STACK - 992, .rbp = 7};
	struct shadow s;

	shadow_init(&s, no_end, NULL);
	expect(shadow_signal(&s, &main, &handler, 0x800) == 0 && s.now.n == 2, "signal handler");
	expect(shadow_step(&s, INSN_RET, &handler, &trampoline, 0) == 0 && shadow_current(&s) &&
		       shadow_current(&s)->signal && shadow_current(&s)->sp == STACK,
	       "signal trampoline");
	shadow_sigreturn(&s, &main);
	expect(!s.now.n && !s.counts.left, "rt_sigreturn");
	shadow_fini(&s);
}

unsigned selftest_run(void)
{
	failures = 0;
	check_instructions();
	check_scripts();
	check_signal();
	printf("%zu instructions, %zu scripts, %u failures\n", ARRAY_SIZE(instructions),
	       ARRAY_SIZE(scripts) + 1, failures);
	return failures;
}
