// SPDX-License-Identifier: Apache-2.0
/* Rules that may be wrong, and code of which nothing is known (enum unwind_none). */
#include "tests/bpf/machine.h"

#define STACK 0x70000000ull
#define SP (STACK + 0x800)
#define BIAS 0x400000ull
#define FILE_INDEX 3
#define GUESSED (BIAS + 0x1000) /* CFA sp + 32, checked */
#define BY_FP (BIAS + 0x1100)	/* CFA fp + 16, checked */
#define PENDING (BIAS + 0x1200)
#define REFUSED (BIAS + 0x1300)
#define ROOT (BIAS + 0x1400)
#define RA (ROOT + 0x20)

static const struct elf_rule by_sp = {
	.cfa_kind = CFA_REG_OFF, .cfa_reg = DWARF_SP, .cfa_off = 32, .flags = RULE_CHECKED, .ra = RA_AT_CFA};
static const struct elf_rule by_fp = {
	.cfa_kind = CFA_REG_OFF, .cfa_reg = DWARF_FP, .cfa_off = 16, .flags = RULE_CHECKED, .ra = RA_AT_CFA};

static struct machine *machine_with_code(uint64_t code)
{
	const struct machine_row rows[] = {
		{GUESSED - BIAS, by_sp},
		{BY_FP - BIAS, by_fp},
		{PENDING - BIAS, {.cfa_kind = CFA_NONE, .cfa_off = NO_RULE_PENDING}},
		{REFUSED - BIAS, {.cfa_kind = CFA_NONE, .cfa_off = NO_RULE_REFUSED}},
		{ROOT - BIAS, RULE_ROOT},
		{ROOT + 0x100 - BIAS, RULE_NONE},
	};
	struct machine *m = machine_new();

	machine_map_table(m, BIAS, FILE_INDEX, rows, ARRAY_SIZE(rows));
	machine_memory(m, STACK, MACHINE_PAGE);
	machine_memory(m, ROOT, 64);
	machine_poke(m, RA - 8, code);
	machine_poke(m, SP + 24, RA);
	return m;
}

Test(checked, return_address_behind_a_call)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		_cleanup_machine_ struct machine *m = machine_with_code(calls[i].words[0]);

		cr_expect_eq(machine_unwind(m, GUESSED, SP, 0, 64), ENDING_ROOT, "%s", calls[i].name);
		cr_expect_eq(m->area.state.n, 2);
		cr_expect_eq(machine_unwind(m, BY_FP, SP, SP + 16, 64), ENDING_ROOT, "%s", calls[i].name);
	}
}

Test(checked, return_address_behind_no_call)
{
	for (size_t i = 0; i < ARRAY_SIZE(not_calls); i++) {
		_cleanup_machine_ struct machine *m = machine_with_code(not_calls[i].words[0]);

		cr_expect_eq(machine_unwind(m, GUESSED, SP, 0, 64), ENDING_NO_CALL, "%s", not_calls[i].name);
		cr_expect_eq(m->area.state.n, 1, "the frame itself is right");
		cr_expect_eq(machine_unwind(m, BY_FP, SP, SP + 16, 64), ENDING_NO_CALL);
	}
}

/* What cannot be read does not speak against the rule. */
Test(checked, code_not_readable)
{
	_cleanup_machine_ struct machine *m = machine_with_code(0);

	machine_fault_at(m, RA - 8, 8);
	expect_ending(machine_unwind(m, GUESSED, SP, 0, 64), ENDING_ROOT);
}

Test(checked, return_address_0_is_no_root)
{
	_cleanup_machine_ struct machine *m = machine_with_code(0);

	machine_poke(m, SP + 24, 0);
	expect_ending(machine_unwind(m, GUESSED, SP, 0, 64), ENDING_NO_ROOT);
}

/* A frame pointer that would do is not used. */
Test(checked, unknown_code)
{
	_cleanup_machine_ struct machine *m = machine_with_code(calls[0].words[0]);

	expect_ending(machine_unwind(m, PENDING, SP, SP + 16, 64), ENDING_NO_TABLE);
	cr_expect_eq(m->area.state.pending, TABLE_PENDING);
	expect_ending(machine_unwind(m, REFUSED, SP, SP + 16, 64), ENDING_NO_ROW);
	cr_expect_eq(m->area.state.n, 1);
}

Test(checked, mappings_without_table)
{
	static const struct {
		uint32_t table;
		int ending;
	} cases[] = {
		{TABLE_NEVER, ENDING_ROOT}, {TABLE_PENDING, ENDING_NO_TABLE}, {TABLE_REFUSED, ENDING_NO_ROW}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_machine_ struct machine *m = machine_with_code(calls[0].words[0]);

		machine_map(m, 0x900000, 0x910000, 0, FILE_ANONYMOUS, cases[i].table);
		expect_ending(machine_unwind(m, 0x900100, SP, SP + 16, 64), cases[i].ending);
	}
}
