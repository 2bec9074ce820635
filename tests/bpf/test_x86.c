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
