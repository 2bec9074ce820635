// SPDX-License-Identifier: Apache-2.0
/* Rules that only x86-64 has. */
#include "tests/bpf/step.h"

static const struct step_case cases[] = {
	{"PLT, first half", CFA_RULE(.cfa_kind = CFA_PLT, .cfa_off = 11), .ip_offset = 10,
	 .words = {{SP, RETURN}}, STEPPED(SP + 8, 0)},
	{"PLT, second half", CFA_RULE(.cfa_kind = CFA_PLT, .cfa_off = 11), .ip_offset = 11,
	 .words = {{SP + 8, RETURN}}, STEPPED(SP + 16, 0)},
	{"*(sp + r9 * 8 + 16) + 8", CFA_RULE(.cfa_kind = CFA_DEREF_SP_R9, .cfa_off = 16, .cfa_add = 8),
	 .regs = {{9, 5}}, .words = {{SP + 56, SP + 0x300}, {SP + 0x300, RETURN}}, STEPPED(SP + 0x308, 0),
	 .requests = 1},
	{"*(sp + r9 * 8 + 16), no memory", CFA_RULE(.cfa_kind = CFA_DEREF_SP_R9, .cfa_off = 16),
	 .regs = {{9, 1 << 20}}, .ending = ENDING_READ_FAULT, .requests = 1},
	{"fp at CFA + 4096",
	 CFA_RULE(.cfa_kind = CFA_REG_OFF, .cfa_reg = DWARF_SP, .cfa_off = 64,
		  .fp = {.kind = REG_CFA_OFF, .off = 4096}),
	 .words = {{SP + 56, RETURN}, {SP + 64 + 4096, 0x44}}, STEPPED(SP + 64, 0x44)},
	{"fp at CFA + 4096, no memory",
	 CFA_RULE(.cfa_kind = CFA_REG_OFF, .cfa_reg = DWARF_SP, .cfa_off = 64,
		  .fp = {.kind = REG_CFA_OFF, .off = 4096}),
	 .words = {{SP + 56, RETURN}}, .fault = {SP + 64 + 4096, 8}, .ending = ENDING_READ_FAULT},
};

Test(x86, steps)
{
	step_check_all(cases, ARRAY_SIZE(cases));
}

/* Beginnings and ends of LuaJIT's interpreter, by their instructions. */
Test(x86, pushed_by_luajit)
{
	static const struct {
		uint64_t instructions;
		int pushed;
	} cases_of_code[] = {{0x8348564157415355, 0},
			     {0xec83485641574153, 8},
			     {0x28ec834856415741, 16},
			     {0x001228ec83485641, 24},
			     {0x0000001228ec8348, 32},
			     {0x12c35d5b5f415e41, 32},
			     {0x00000ac35d5b5f41, 24},
			     {0x000000000ac35d5b, 16},
			     {0xc35d, 8},
			     {0xc3, 0},
			     {0x55, -1},
			     {0x28c48348, -1}};

	for (size_t i = 0; i < ARRAY_SIZE(cases_of_code); i++)
		cr_expect_eq(arch_pushed_by_luajit(cases_of_code[i].instructions), cases_of_code[i].pushed,
			     "%lx", (unsigned long)cases_of_code[i].instructions);
}
