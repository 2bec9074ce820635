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
#define FRAME (SP + 8)	     /* the signal frame, once the handler has returned */
#define CFA (STACK + 0x2000) /* of the interrupted function */

struct signal_case {
	const char *name;
	struct elf_rule trampoline, interrupted;
	uint64_t code[2];     /* at the trampoline */
	uint64_t flags, link; /* the ucontext's first words */
	uint64_t at;	      /* where the signal frame has CFA; 0: nowhere */
	bool fault;	      /* the code cannot be read */
	int ending;
	unsigned frames;
};

#define RULE_SIGNAL ((struct elf_rule){.cfa_kind = CFA_SIGNAL})

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
	machine_poke(m, FRAME + FRAME_FLAGS, c->flags);
	machine_poke(m, FRAME + FRAME_LINK, c->link);
	if (c->at)
		machine_poke(m, FRAME + c->at, CFA);
	machine_poke(m, FRAME + FRAME_FP, 1); /* no frame pointer to go by */
	machine_poke(m, FRAME + FRAME_SP, CFA - 16);
	machine_poke(m, FRAME + FRAME_IP, BIAS + INTERRUPTED); /* its first instruction: no return address */
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

/* The handler seems to be what the signal interrupted: that is not followed to the limit of frames. */
Test(signal, a_circle)
{
	_cleanup_machine_ struct machine *m = machine_new();
	const struct machine_row rows[] = {
		{HANDLER, RULE_SP(8)}, {TRAMPOLINE - 64, RULE_SIGNAL}, {TRAMPOLINE + 64, RULE_NONE}};
	int ending;

	machine_map_table(m, BIAS, FILE_INDEX, rows, ARRAY_SIZE(rows));
	machine_memory(m, STACK, STACK_BYTES);
	machine_poke(m, SP, BIAS + TRAMPOLINE);
	machine_poke(m, FRAME + FRAME_SP, SP);
	machine_poke(m, FRAME + FRAME_IP, BIAS + HANDLER);
	ending = machine_unwind(m, BIAS + HANDLER, SP, 1, 1000);
	cr_expect_eq(ending, ENDING_BAD_CFA, "%s", ending_text(ending));
	cr_expect_eq(m->area.state.n, 2 * SIGNALS_MAX + 2, "%u frames", m->area.state.n);
}

Test(signal, by_a_row)
{
	run(&(struct signal_case){"row", RULE_SIGNAL, RULE_SP(16), .flags = ~0ull, .ending = ENDING_ROOT,
				  .frames = 4});
}

/* Each register of the interrupted frame, as the base of its CFA. */
Test(signal, registers)
{
	unsigned n = 0;

	for (unsigned reg = 0; reg < ARRAY_SIZE(frame_registers); reg++) {
		const struct elf_rule rule = {
			.cfa_kind = CFA_REG_OFF, .cfa_reg = (uint8_t)reg, .ra = RA_AT_CFA};
		char name[32];

		if (reg == DWARF_SP || reg == DWARF_FP)
			continue;
		n++;
		snprintf(name, sizeof name, "row, then register %u", reg);
		run(&(struct signal_case){name, RULE_SIGNAL, rule, .at = frame_registers[reg],
					  .ending = ENDING_ROOT, .frames = 4});
		snprintf(name, sizeof name, "code, then register %u", reg);
		run(&(struct signal_case){name,
					  RULE_NONE,
					  rule,
					  {sigreturns[0].words[0]},
					  .at = frame_registers[reg],
					  .ending = ENDING_ROOT,
					  .frames = 4});
	}
	cr_expect_geq(n, 14);
}

Test(signal, by_code)
{
	for (size_t i = 0; i < ARRAY_SIZE(sigreturns); i++) {
		const struct machine_code *code = &sigreturns[i];
		struct signal_case c = {code->name,
					RULE_NONE,
					RULE_SP(16),
					{code->words[0], code->words[1]},
					.flags = FRAME_GOOD_FLAGS,
					.ending = ENDING_ROOT,
					.frames = 4};

		run(&c);
		c.ending = ENDING_NO_ROW;
		c.frames = 2;
		c.flags = 0x7fff0000; /* of no ucontext */
		run(&c);
		c.flags = FRAME_GOOD_FLAGS;
		c.link = SP;
		run(&c);
		c.link = 0;
		c.fault = true;
		run(&c);
	}
	run(&(struct signal_case){not_sigreturn.name,
				  RULE_NONE,
				  RULE_SP(16),
				  {not_sigreturn.words[0]},
				  .flags = FRAME_GOOD_FLAGS,
				  .ending = ENDING_NO_ROW,
				  .frames = 2});
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
	machine_poke(m, BIAS + TRAMPOLINE, sigreturns[0].words[0]);
	expect_ending(machine_unwind(m, BIAS + TRAMPOLINE, FRAME, 1, 16), ENDING_NO_TABLE);
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
