// SPDX-License-Identifier: Apache-2.0
/* What arm64 has and x86-64 has not: return addresses anywhere in the frame, in x30, and signed. */
#include "tests/bpf/step.h"

#define X30 30
#define PAC 0x007f000000000000ull /* NT_ARM_PAC_MASK with 48-bit addresses */
#define SIGNED(address) ((address) | 0x0055000000000000ull)
#define AT_CFA_MINUS(n) {.kind = REG_CFA_OFF, .off = -(n)}
#define SP_RULE(n, ...) \
	((struct elf_rule){.cfa_kind = CFA_REG_OFF, .cfa_reg = DWARF_SP, .cfa_off = (n), __VA_ARGS__})

static const struct step_case cases[] = {
	{"stp x29, x30, [sp, #-64]!", SP_RULE(64, .fp = AT_CFA_MINUS(64), .ra = AT_CFA_MINUS(56)),
	 .words = {{SP, 0x77}, {SP + 8, RETURN}, {SP + 56, 0xbad}}, STEPPED(SP + 64, 0x77)},
	{"the same, CFA by x29",
	 {.cfa_kind = CFA_REG_OFF,
	  .cfa_reg = DWARF_FP,
	  .cfa_off = 64,
	  .fp = AT_CFA_MINUS(64),
	  .ra = AT_CFA_MINUS(56)},
	 .fp = SP + 0x100,
	 .words = {{SP + 0x100, 0x77}, {SP + 0x108, RETURN}},
	 STEPPED(SP + 0x140, 0x77)},
	{"a frame of 64 KiB", SP_RULE(65536, .fp = AT_CFA_MINUS(65536), .ra = AT_CFA_MINUS(65528)),
	 .words = {{SP, 0x77}, {SP + 8, RETURN}}, STEPPED(SP + 65536, 0x77)},
	{"x30 below x29", SP_RULE(32, .fp = AT_CFA_MINUS(8), .ra = AT_CFA_MINUS(32)),
	 .words = {{SP + 24, 0x77}, {SP, RETURN}}, STEPPED(SP + 32, 0x77)},
	{"x30 1,016 bytes above x29",
	 SP_RULE(2048, .fp = AT_CFA_MINUS(2048), .ra = AT_CFA_MINUS(2048 - 1016)),
	 .words = {{SP, 0x77}, {SP + 1016, RETURN}}, STEPPED(SP + 2048, 0x77)},
	{"str x30, [sp, #-16]!", SP_RULE(16, .ra = AT_CFA_MINUS(16)), .fp = 0x66, .words = {{SP, RETURN}},
	 STEPPED(SP + 16, 0x66)},
	{"str x30, [sp, #-1024]!", SP_RULE(1024, .ra = AT_CFA_MINUS(1024)), .fp = 0x66,
	 .words = {{SP, RETURN}}, STEPPED(SP + 1024, 0x66)},
	{"x30 1,032 bytes below the CFA, x29 not saved", SP_RULE(1032, .ra = AT_CFA_MINUS(1032)), .fp = 0x66,
	 .words = {{SP, RETURN}}, STEPPED(SP + 1032, 0x66)},
	{"x30 64 KiB below the CFA, x29 undefined",
	 SP_RULE(65536, .fp = {.kind = REG_UNDEFINED}, .ra = AT_CFA_MINUS(65536)), .words = {{SP, RETURN}},
	 STEPPED(SP + 65536, 0)},
	{"x30 below the CFA, x29 by itself",
	 SP_RULE(32, .fp = {.kind = REG_DEREF_REG, .reg = DWARF_FP, .off = 16}, .ra = AT_CFA_MINUS(32)),
	 .fp = SP + 0x100, .words = {{SP + 0x110, 0x77}, {SP, RETURN}}, STEPPED(SP + 32, 0x77)},
	{"CFA by x7, x30 below the CFA",
	 {.cfa_kind = CFA_REG_OFF, .cfa_reg = 7, .cfa_off = 8, .ra = AT_CFA_MINUS(8)},
	 .regs = {{7, SP + 0x200}},
	 .words = {{SP + 0x200, RETURN}},
	 STEPPED(SP + 0x208, 0),
	 .requests = 1},
	{"CFA by x7, x30 behind x29",
	 {.cfa_kind = CFA_REG_OFF,
	  .cfa_reg = 7,
	  .cfa_off = 32,
	  .fp = AT_CFA_MINUS(32),
	  .ra = AT_CFA_MINUS(24)},
	 .regs = {{7, SP + 0x200}},
	 .words = {{SP + 0x200, 0x77}, {SP + 0x208, RETURN}},
	 STEPPED(SP + 0x220, 0x77),
	 .requests = 1},
	{"CFA by x7, x30 elsewhere",
	 {.cfa_kind = CFA_REG_OFF, .cfa_reg = 7, .cfa_off = 32, .ra = AT_CFA_MINUS(24)},
	 .ending = ENDING_UNSUPPORTED_RULE},
	{"not readable", SP_RULE(64, .fp = AT_CFA_MINUS(64), .ra = AT_CFA_MINUS(56)), .fault = {SP + 8, 8},
	 .ending = ENDING_READ_FAULT},
	{"a leaf", SP_RULE(0), .fp = 0x66, .regs = {{X30, RETURN}}, STEPPED(SP, 0x66), .requests = 1},
	{"a leaf on a page that is not there yet", SP_RULE(16), .fp = 0x66, .regs = {{X30, RETURN}},
	 .fault = {SP, 24}, STEPPED(SP + 16, 0x66), .requests = 1},
	{"a leaf with a frame", SP_RULE(48), .fp = 0x66, .regs = {{X30, RETURN}}, STEPPED(SP + 48, 0x66),
	 .requests = 1},
	{"a leaf that saved x29", SP_RULE(16, .fp = AT_CFA_MINUS(16)), .regs = {{X30, RETURN}},
	 .words = {{SP, 0x77}}, STEPPED(SP + 16, 0x77), .requests = 1},
	{"a leaf, signed", SP_RULE(0), .regs = {{X30, SIGNED(RETURN)}}, STEPPED(SP, 0), .requests = 1,
	 .signature = PAC},
	{"signed", SP_RULE(16, .fp = AT_CFA_MINUS(16), .ra = AT_CFA_MINUS(8)),
	 .words = {{SP, 0x77}, {SP + 8, SIGNED(RETURN)}}, STEPPED(SP + 16, 0x77), .signature = PAC},
	{"return address 0, signed", SP_RULE(16, .ra = AT_CFA_MINUS(16)), .words = {{SP, SIGNED(0)}},
	 .ending = ENDING_NO_ROOT, .signature = PAC},
	{"not signed where others are", SP_RULE(16, .ra = AT_CFA_MINUS(16)), .words = {{SP, RETURN}},
	 STEPPED(SP + 16, 0), .signature = PAC},
	{"a rule of x86-64's PLT", CFA_RULE(.cfa_kind = CFA_PLT, .cfa_off = 11),
	 .ending = ENDING_UNSUPPORTED_RULE},
	{"a rule of x86-64 with r9", CFA_RULE(.cfa_kind = CFA_DEREF_SP_R9, .cfa_off = 16),
	 .ending = ENDING_UNSUPPORTED_RULE},
};

Test(arm64, steps)
{
	step_check_all(cases, ARRAY_SIZE(cases));
}

#define FRAMED 0x3000ull
#define ROOT 0x4000ull
#define PREEMPT \
	0x5000ull /* as Go's asyncPreempt: a frame of 32 bytes, and 16 that were pushed in its caller's name */
#define JIT 0x900000ull /* anonymous memory, no table */

static const struct machine_row rows[] = {
	{LEAF, SP_RULE(0)},
	{LEAF + 0x100, RULE_NONE},
	{FRAMED, SP_RULE(64, .fp = AT_CFA_MINUS(64), .ra = AT_CFA_MINUS(56))},
	{FRAMED + 0x100, RULE_NONE},
	{ROOT, RULE_ROOT},
	{ROOT + 0x100, RULE_NONE},
	{PREEMPT, SP_RULE(48, .fp = AT_CFA_MINUS(56), .ra = AT_CFA_MINUS(48), .flags = RULE_INTERRUPTS)},
	{PREEMPT + 0x100, RULE_NONE},
};

/* A leaf, two frames with a row, two with a record only, the root: all return addresses signed. */
Test(arm64, a_signed_stack)
{
	_cleanup_machine_ struct machine *m = machine_new();

	machine_map_table(m, BIAS, FILE_INDEX, rows, ARRAY_SIZE(rows));
	machine_map(m, JIT, JIT + 0x1000, 0, FILE_ANONYMOUS, TABLE_NEVER);
	machine_memory(m, STACK, STACK_BYTES);
	m->area.ip_signature = PAC;
	m->regs[X30] = SIGNED(BIAS + FRAMED + 0x10);
	machine_poke(m, SP, SP + 64);
	machine_poke(m, SP + 8, SIGNED(BIAS + FRAMED + 0x20));
	machine_poke(m, SP + 64, SP + 200);
	machine_poke(m, SP + 72, SIGNED(JIT + 0x30));
	machine_poke(m, SP + 200, SP + 400);
	machine_poke(m, SP + 208, SIGNED(JIT + 0x40));
	machine_poke(m, SP + 400, SP + 600);
	machine_poke(m, SP + 408, SIGNED(BIAS + ROOT + 0x50));
	expect_ending(machine_unwind(m, BIAS + LEAF, SP, SP, 64), ENDING_ROOT);
	cr_expect_eq(m->area.state.n, 6, "%u frames", m->area.state.n);
	expect_frame(m, 0, FILE_INDEX, LEAF);
	expect_frame(m, 1, FILE_INDEX, FRAMED + 0x0f);
	expect_frame(m, 2, FILE_INDEX, FRAMED + 0x1f);
	expect_frame(m, 3, FILE_ANONYMOUS, JIT + 0x2f);
	expect_frame(m, 4, FILE_ANONYMOUS, JIT + 0x3f);
	expect_frame(m, 5, FILE_INDEX, ROOT + 0x4f);
}

/* A function that the entry point has jumped to, with x30 = 0. */
Test(arm64, where_the_programs_stack_began)
{
	_cleanup_machine_ struct machine *m = machine_new();

	machine_map_table(m, BIAS, FILE_INDEX, rows, ARRAY_SIZE(rows));
	machine_memory(m, STACK, STACK_BYTES);
	machine_poke(m, SP + 8, 0);
	expect_ending(machine_unwind(m, BIAS + FRAMED, SP, 0, 64), ENDING_NO_ROOT);
	m->env.start_stack = SP + 64;
	expect_ending(machine_unwind(m, BIAS + FRAMED, SP, 0, 64), ENDING_ROOT);
	m->env.start_stack = SP + 80;
	expect_ending(machine_unwind(m, BIAS + FRAMED, SP, 0, 64), ENDING_NO_ROOT);
}

/* x30 is the innermost frame's: in a caller, a rule of a leaf says nothing. */
Test(arm64, a_leaf_calls_nobody)
{
	_cleanup_machine_ struct machine *m = machine_new();

	machine_map_table(m, BIAS, FILE_INDEX, rows, ARRAY_SIZE(rows));
	machine_memory(m, STACK, STACK_BYTES);
	m->regs[X30] = BIAS + LEAF + 0x10;
	expect_ending(machine_unwind(m, BIAS + LEAF, SP, 0, 64), ENDING_UNSUPPORTED_RULE);
	cr_expect_eq(m->area.state.n, 2, "%u frames", m->area.state.n);
}

/* A leaf that was interrupted by what looks as if the leaf had called it: the leaf's x30 was pushed. */
Test(arm64, an_interrupted_leaf)
{
	_cleanup_machine_ struct machine *m = machine_new();

	machine_map_table(m, BIAS, FILE_INDEX, rows, ARRAY_SIZE(rows));
	machine_memory(m, STACK, STACK_BYTES);
	machine_poke(m, SP, BIAS + LEAF + 0x20);
	machine_poke(m, SP - 8, SP + 80);
	machine_poke(m, SP + 32, BIAS + ROOT + 0x10);
	expect_ending(machine_unwind(m, BIAS + PREEMPT + 0x40, SP, 0, 64), ENDING_ROOT);
	cr_expect_eq(m->area.state.n, 3, "%u frames", m->area.state.n);
	expect_frame(m, 1, FILE_INDEX, LEAF + 0x20);
	expect_frame(m, 2, FILE_INDEX, ROOT + 0x0f);
	cr_expect_eq(m->area.state.fp, SP + 80);
}

/* Only that leaf's: its caller was not interrupted. */
Test(arm64, the_caller_of_an_interrupted_leaf)
{
	_cleanup_machine_ struct machine *m = machine_new();

	machine_map_table(m, BIAS, FILE_INDEX, rows, ARRAY_SIZE(rows));
	machine_map(m, JIT, JIT + 0x1000, 0, FILE_ANONYMOUS, TABLE_NEVER);
	machine_memory(m, STACK, STACK_BYTES);
	machine_poke(m, SP, BIAS + LEAF + 0x20);
	machine_poke(m, SP + 32, BIAS + LEAF + 0x30);
	expect_ending(machine_unwind(m, BIAS + PREEMPT + 0x40, SP, 0, 64), ENDING_UNSUPPORTED_RULE);
	cr_expect_eq(m->area.state.n, 3, "%u frames", m->area.state.n);
	/* nor is what a frame record leads to */
	machine_poke(m, SP, JIT + 0x20);
	machine_poke(m, SP - 8, SP + 80);
	machine_poke(m, SP + 80, SP + 120);
	machine_poke(m, SP + 88, BIAS + LEAF + 0x30);
	expect_ending(machine_unwind(m, BIAS + PREEMPT + 0x40, SP, 0, 64), ENDING_UNSUPPORTED_RULE);
	cr_expect_eq(m->area.state.n, 3, "%u frames", m->area.state.n);
}

/* A leaf without a frame may run with the stack pointer at the stack's end: nothing below it is read. */
Test(arm64, a_leaf_at_the_end_of_the_stack)
{
	_cleanup_machine_ struct machine *m = machine_new();

	machine_map_table(m, BIAS, FILE_INDEX, rows, ARRAY_SIZE(rows));
	machine_memory(m, STACK, STACK_BYTES);
	m->regs[X30] = BIAS + ROOT + 0x10;
	expect_ending(machine_unwind(m, BIAS + LEAF, STACK, 0, 64), ENDING_ROOT);
	cr_expect_eq(m->area.state.n, 2, "%u frames", m->area.state.n);
}
