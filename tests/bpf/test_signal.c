// SPDX-License-Identifier: Apache-2.0
/*
 * Out of signal handlers: by a row that says so, or by the trampoline's code; and what the interrupted frame
 * has that another caller's has not: all its registers.
 */
#include "tests/bpf/machine.h"

#define BIAS 0x400000ull
#define FILE_INDEX 7
#define HANDLER 0x1000ull     /* ELF virtual addresses */
#define TRAMPOLINE 0x2000ull  /* where the handler returns to */
#define INTERRUPTED 0x3000ull /* what the signal interrupted */
#define ROOT 0x4000ull
#define STACK 0x70000000ull
#define STACK_BYTES (4 * MACHINE_PAGE)
#define SP (STACK + 0x800)
#define UCONTEXT (SP + 8) /* once the handler has returned */
#define GREG(n) (UCONTEXT + 40 + 8 * (n))
#define CFA (STACK + 0x2000) /* of the interrupted function */

struct signal_case {
	const char *name;
	struct elf_rule trampoline, interrupted;
	uint64_t code[2];     /* at the trampoline */
	uint64_t flags, link; /* the ucontext's first words */
	unsigned greg;	      /* the one of uc_mcontext.gregs that has `value` */
	uint64_t value;
	bool fault; /* the code cannot be read */
	int ending;
	unsigned frames;
};

#define BY_REGISTER(n, off) \
	((struct elf_rule){.cfa_kind = CFA_REG_OFF, .cfa_reg = (n), .cfa_off = (off), .ra = RA_AT_CFA})
#define RULE_SIGNAL ((struct elf_rule){.cfa_kind = CFA_SIGNAL})
#define EAX {0x00050f0000000fb8ull, 0}
#define RAX {0x0f0000000fc0c748ull, 0x05}

static const struct signal_case cases[] = {
	{"row", RULE_SIGNAL, RULE_SP(16), .ending = ENDING_ROOT, .frames = 4},
	{"row, then r8", RULE_SIGNAL, BY_REGISTER(8, 0), .greg = 0, .value = CFA, .ending = ENDING_ROOT,
	 .frames = 4},
	{"row, then r10", RULE_SIGNAL, BY_REGISTER(10, 8), .greg = 2, .value = CFA - 8, .ending = ENDING_ROOT,
	 .frames = 4},
	{"row, then r15", RULE_SIGNAL, BY_REGISTER(15, 0), .greg = 7, .value = CFA, .ending = ENDING_ROOT,
	 .frames = 4},
	{"row, then rdi", RULE_SIGNAL, BY_REGISTER(5, 0), .greg = 8, .value = CFA, .ending = ENDING_ROOT,
	 .frames = 4},
	{"row, then rsi", RULE_SIGNAL, BY_REGISTER(4, 0), .greg = 9, .value = CFA, .ending = ENDING_ROOT,
	 .frames = 4},
	{"row, then rbx", RULE_SIGNAL, BY_REGISTER(3, 0), .greg = 11, .value = CFA, .ending = ENDING_ROOT,
	 .frames = 4},
	{"row, then rdx", RULE_SIGNAL, BY_REGISTER(1, 0), .greg = 12, .value = CFA, .ending = ENDING_ROOT,
	 .frames = 4},
	{"row, then rax", RULE_SIGNAL, BY_REGISTER(0, 0), .greg = 13, .value = CFA, .ending = ENDING_ROOT,
	 .frames = 4},
	{"row, then rcx", RULE_SIGNAL, BY_REGISTER(2, 0), .greg = 14, .value = CFA, .ending = ENDING_ROOT,
	 .frames = 4},
	{"code, eax", RULE_NONE, RULE_SP(16), .code = EAX, .flags = 7, .ending = ENDING_ROOT, .frames = 4},
	{"code, rax", RULE_NONE, RULE_SP(16), .code = RAX, .flags = 6, .ending = ENDING_ROOT, .frames = 4},
	{"code, then r10", RULE_NONE, BY_REGISTER(10, 0), .code = EAX, .greg = 2, .value = CFA,
	 .ending = ENDING_ROOT, .frames = 4},
	{"other code", RULE_NONE, RULE_SP(16), .code = {0x00050f00000010b8ull, 0}, .ending = ENDING_NO_ROW,
	 .frames = 2},
	{"code, no flags of a ucontext", RULE_NONE, RULE_SP(16), .code = EAX, .flags = 0x7fff0000,
	 .ending = ENDING_NO_ROW, .frames = 2},
	{"code, a link", RULE_NONE, RULE_SP(16), .code = EAX, .link = SP, .ending = ENDING_NO_ROW,
	 .frames = 2},
	{"code not readable", RULE_NONE, RULE_SP(16), .code = EAX, .fault = true, .ending = ENDING_NO_ROW,
	 .frames = 2},
};

static void run(const struct signal_case *c)
{
	_cleanup_machine_ struct machine *m = machine_new();
	const struct machine_row rows[] = {{HANDLER, RULE_SP(8)},
					   {TRAMPOLINE - 64, c->trampoline},
					   {TRAMPOLINE + 64, RULE_SP(8)},
					   {INTERRUPTED, c->interrupted},
					   {ROOT, RULE_ROOT},
					   {ROOT + 64, RULE_NONE}};
	int ending;

	machine_map_table(m, BIAS, FILE_INDEX, rows, ARRAY_SIZE(rows));
	machine_memory(m, STACK, STACK_BYTES);
	machine_memory(m, BIAS + TRAMPOLINE, 64);
	machine_poke(m, BIAS + TRAMPOLINE, c->code[0]);
	machine_poke(m, BIAS + TRAMPOLINE + 8, c->code[1]);
	machine_poke(m, SP, BIAS + TRAMPOLINE);
	machine_poke(m, UCONTEXT, c->flags);
	machine_poke(m, UCONTEXT + 8, c->link);
	machine_poke(m, GREG(c->greg), c->value);
	machine_poke(m, GREG(10), 1); /* rbp: no frame pointer to go by */
	machine_poke(m, GREG(15), CFA - 16);
	machine_poke(m, GREG(16), BIAS + INTERRUPTED); /* its first instruction: no return address */
	machine_poke(m, CFA - 8, BIAS + ROOT + 1);
	if (c->fault)
		machine_fault_at(m, BIAS + TRAMPOLINE, 8);
	ending = machine_unwind(m, BIAS + HANDLER, SP, 1, 16);
	cr_expect_eq(ending, c->ending, "%s: ended \"%s\", not \"%s\"", c->name, ending_text(ending),
		     ending_text(c->ending));
	cr_expect_eq(m->area.state.n, c->frames, "%s: %u frames", c->name, m->area.state.n);
	if (c->frames == 4)
		cr_expect_eq(m->area.frames[2], (uint64_t)FILE_INDEX << FRAME_VA_BITS | INTERRUPTED,
			     "%s: interrupted", c->name);
	cr_expect_eq(m->n_register_requests, 0, "%s", c->name);
}

Test(signal, out_of_handlers)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		run(&cases[i]);
}

/* A trampoline is where a handler returns to, never the frame that the sample was taken in. */
Test(signal, innermost_is_no_trampoline)
{
	_cleanup_machine_ struct machine *m = machine_new();
	const struct machine_row rows[] = {{HANDLER, RULE_SP(8)}, {HANDLER + 64, RULE_NONE}};

	machine_map_table(m, BIAS, FILE_INDEX, rows, ARRAY_SIZE(rows));
	machine_map(m, BIAS + TRAMPOLINE, BIAS + TRAMPOLINE + 64, BIAS, FILE_INDEX, 0);
	machine_memory(m, STACK, STACK_BYTES);
	machine_memory(m, BIAS + TRAMPOLINE, 64);
	machine_poke(m, BIAS + TRAMPOLINE, 0x00050f0000000fb8ull);
	expect_ending(machine_unwind(m, BIAS + TRAMPOLINE, UCONTEXT, 1, 16), ENDING_NO_TABLE);
	cr_expect_eq(m->area.state.n, 1);
}

/* An unwind that ends in the innermost frame keeps its registers, for who finishes it. */
Test(signal, ending_keeps_innermost)
{
	_cleanup_machine_ struct machine *m = machine_new();
	const struct machine_row rows[] = {
		{HANDLER, RULE_NONE}, {HANDLER + 32, RULE_SP(8)}, {HANDLER + 64, RULE_NONE}};

	machine_map_table(m, BIAS, FILE_INDEX, rows, ARRAY_SIZE(rows));
	machine_memory(m, STACK, STACK_BYTES);
	machine_start(m, machine_list(m, 0), BIAS + HANDLER, SP, 1, 16);
	cr_expect_neq(machine_walk(m), ENDING_ROOT);
	cr_expect_eq(m->area.state.innermost, 1);
}
