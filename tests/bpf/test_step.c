// SPDX-License-Identifier: Apache-2.0
/* One step by every kind of rule that all architectures have. */
#include "tests/bpf/step.h"

static const struct step_case cfa_cases[] = {
	{"sp", RULE_SP(24), .fp = FP_OF_OTHERS, .words = {{SP + 16, RETURN}}, STEPPED(SP + 24, FP_OF_OTHERS)},
	{"fp", RULE_FP(16), .fp = SP + 0x100, .words = {{SP + 0x108, RETURN}, {SP + 0x100, 0x77}},
	 STEPPED(SP + 0x110, 0x77)},
	{"*(sp + 24) + 16",
	 CFA_RULE(.cfa_kind = CFA_DEREF_REG, .cfa_reg = DWARF_SP, .cfa_off = 24, .cfa_add = 16),
	 .words = {{SP + 24, SP + 0x200}, {SP + 0x208, RETURN}}, STEPPED(SP + 0x210, 0)},
	{"*(sp + 24) - 16",
	 CFA_RULE(.cfa_kind = CFA_DEREF_REG, .cfa_reg = DWARF_SP, .cfa_off = 24, .cfa_add = -16),
	 .words = {{SP + 24, SP + 0x200}, {SP + 0x1e8, RETURN}}, STEPPED(SP + 0x1f0, 0)},
	{"*(fp - 56)", CFA_RULE(.cfa_kind = CFA_DEREF_REG, .cfa_reg = DWARF_FP, .cfa_off = -56),
	 .fp = SP + 0x100, .words = {{SP + 0x100 - 56, SP + 0x180}, {SP + 0x178, RETURN}},
	 STEPPED(SP + 0x180, SP + 0x100)},
	{"*(fp - 56), no memory", CFA_RULE(.cfa_kind = CFA_DEREF_REG, .cfa_reg = DWARF_FP, .cfa_off = -56),
	 .fp = SP + 0x100, .fault = {SP + 0x100 - 56, 8}, .ending = ENDING_READ_FAULT},
	{"register 10 + 8", CFA_RULE(.cfa_kind = CFA_REG_OFF, .cfa_reg = 10, .cfa_off = 8),
	 .regs = {{10, SP + 0x300}}, .words = {{SP + 0x300, RETURN}}, STEPPED(SP + 0x308, 0), .requests = 1},
	{"register 10 - 8", CFA_RULE(.cfa_kind = CFA_REG_OFF, .cfa_reg = 10, .cfa_off = -8),
	 .regs = {{10, SP + 0x300}}, .words = {{SP + 0x2f0, RETURN}}, STEPPED(SP + 0x2f8, 0), .requests = 1},
	{"root", RULE_ROOT, .ending = ENDING_ROOT},
	{"unsupported", {.cfa_kind = CFA_UNSUPPORTED}, .ending = ENDING_UNSUPPORTED_RULE},
	{"CFA below sp", RULE_SP(-8), .ending = ENDING_BAD_CFA},
	{"CFA at sp", RULE_SP(0), .ending = ENDING_BAD_CFA},
	{"CFA not aligned", RULE_SP(20), .ending = ENDING_BAD_CFA},
	{"CFA by fp below sp", RULE_FP(16), .fp = SP - 0x100, .ending = ENDING_BAD_CFA},
	{"CFA by fp below sp, on another stack", RULE_FP(16), .fp = SP - 0x100,
	 .words = {{SP - 0xf8, RETURN}, {SP - 0x100, 0x77}}, STEPPED(SP - 0xf0, 0x77)},
	{"CFA by *(fp - 8) below sp, on another stack",
	 CFA_RULE(.cfa_kind = CFA_DEREF_REG, .cfa_reg = DWARF_FP, .cfa_off = -8), .fp = SP + 0x100,
	 .words = {{SP + 0xf8, SP - 0x200}, {SP - 0x208, RETURN}}, STEPPED(SP - 0x200, SP + 0x100)},
	{"a frame of 100,000 bytes", RULE_SP(100000), .words = {{SP + 99992, RETURN}},
	 STEPPED(SP + 100000, 0)},
	{"a frame of 1 GiB", RULE_SP(1 << 30), .ending = ENDING_READ_FAULT},
	{"a frame of more than 1 GiB", RULE_SP((1 << 30) + 8), .ending = ENDING_BAD_CFA},
	{"a leap by fp, to memory that is not there", RULE_FP(16), .fp = SP + (1ull << 40),
	 .ending = ENDING_READ_FAULT},
	{"the caller was interrupted",
	 CFA_RULE(.cfa_kind = CFA_REG_OFF, .cfa_reg = DWARF_SP, .cfa_off = 24, .flags = RULE_INTERRUPTS),
	 .words = {{SP + 16, RETURN}}, .ending = ENDING_DEPTH_LIMIT, .ip = RETURN, .sp = SP + 24},
	{"return address not readable", RULE_SP(24), .fault = {SP + 16, 8}, .ending = ENDING_READ_FAULT},
	{"outside the stack", RULE_SP(STACK_BYTES), .ending = ENDING_READ_FAULT},
	{"return address 0: nothing says that the frame is the outermost", RULE_SP(24),
	 .words = {{SP + 16, 0}}, .ending = ENDING_NO_ROOT},
};

#define FP_RULE(...)                                \
	((struct elf_rule){.cfa_kind = CFA_REG_OFF, \
			   .cfa_reg = DWARF_SP,     \
			   .cfa_off = 64,           \
			   .ra = RA_AT_CFA,         \
			   .fp = {__VA_ARGS__}})
#define FAR (STACK + 0x3000) /* another page than the CFA's, outside the window */

static const struct step_case register_cases[] = {
	{"fp same", FP_RULE(.kind = REG_SAME), .fp = 0x66, .words = {{SP + 56, RETURN}},
	 STEPPED(SP + 64, 0x66)},
	{"fp at CFA - 16", FP_RULE(.kind = REG_CFA_OFF, .off = -16),
	 .words = {{SP + 56, RETURN}, {SP + 48, 0x55}}, STEPPED(SP + 64, 0x55)},
	{"fp at CFA - 512, before the window", FP_RULE(.kind = REG_CFA_OFF, .off = -512),
	 .words = {{SP + 56, RETURN}, {SP + 64 - 512, 0x55}}, STEPPED(SP + 64, 0x55)},
	{"fp at CFA + 1000, behind the window", FP_RULE(.kind = REG_CFA_OFF, .off = 1000),
	 .words = {{SP + 56, RETURN}, {SP + 64 + 1000, 0x44}}, STEPPED(SP + 64, 0x44)},
	{"fp at CFA + 1000, no memory", FP_RULE(.kind = REG_CFA_OFF, .off = 1000),
	 .words = {{SP + 56, RETURN}}, .fault = {SP + 64 + 1000, 8}, .ending = ENDING_READ_FAULT},
	{"fp at fp - 40", FP_RULE(.kind = REG_DEREF_REG, .reg = DWARF_FP, .off = -40), .fp = FAR,
	 .words = {{SP + 56, RETURN}, {FAR - 40, 0x33}}, STEPPED(SP + 64, 0x33)},
	{"fp at fp - 40, no memory", FP_RULE(.kind = REG_DEREF_REG, .reg = DWARF_FP, .off = -40), .fp = FAR,
	 .words = {{SP + 56, RETURN}}, .fault = {FAR - 40, 8}, .ending = ENDING_READ_FAULT},
	{"fp undefined", FP_RULE(.kind = REG_UNDEFINED), .fp = 0x66, .words = {{SP + 56, RETURN}},
	 STEPPED(SP + 64, 0)},
	{"fp in a register", FP_RULE(.kind = REG_REGISTER, .reg = 3), .ending = ENDING_UNSUPPORTED_RULE},
	{"return address in register 5, as in vfork of x86-64",
	 {.cfa_kind = CFA_REG_OFF, .cfa_reg = DWARF_SP, .cfa_off = 0, .ra = RA_IN(5)},
	 .fp = 0x66,
	 .regs = {{5, RETURN}},
	 STEPPED(SP, 0x66),
	 .requests = 1},
	{"return address in register 1, CFA above",
	 {.cfa_kind = CFA_REG_OFF, .cfa_reg = DWARF_SP, .cfa_off = 32, .ra = RA_IN(1)},
	 .regs = {{1, RETURN}},
	 STEPPED(SP + 32, 0),
	 .requests = 1},
	{"return address in register 1, CFA below",
	 {.cfa_kind = CFA_REG_OFF, .cfa_reg = DWARF_SP, .cfa_off = -8, .ra = RA_IN(1)},
	 .regs = {{1, RETURN}},
	 .ending = ENDING_BAD_CFA},
	{"return address in register 1, fp at CFA - 16",
	 {.cfa_kind = CFA_REG_OFF,
	  .cfa_reg = DWARF_SP,
	  .cfa_off = 32,
	  .ra = RA_IN(1),
	  .fp = {.kind = REG_CFA_OFF, .off = -16}},
	 .fp = 0x66,
	 .regs = {{1, RETURN}},
	 .words = {{SP + 16, 0x22}},
	 STEPPED(SP + 32, 0x22),
	 .requests = 1},
	{"return address in register 1, fp at fp - 8",
	 {.cfa_kind = CFA_REG_OFF,
	  .cfa_reg = DWARF_SP,
	  .cfa_off = 32,
	  .ra = RA_IN(1),
	  .fp = {.kind = REG_DEREF_REG, .reg = DWARF_FP, .off = -8}},
	 .fp = FAR,
	 .regs = {{1, RETURN}},
	 .words = {{FAR - 8, 0x11}},
	 STEPPED(SP + 32, 0x11),
	 .requests = 1},
	{"return address 0 in register 1",
	 {.cfa_kind = CFA_REG_OFF, .cfa_reg = DWARF_SP, .cfa_off = 32, .ra = RA_IN(1)},
	 .words = {{SP + 24, RETURN}},
	 .ending = ENDING_NO_ROOT,
	 .requests = 1},
	{"return address in register 1, CFA by register 10: two registers",
	 {.cfa_kind = CFA_REG_OFF, .cfa_reg = 10, .cfa_off = 32, .ra = RA_IN(1)},
	 .ending = ENDING_UNSUPPORTED_RULE},
};

#define ALT_STACK_SP (STACK + 0x40)

static const struct step_case signal_cases[] = {
	{"signal frame",
	 {.cfa_kind = CFA_SIGNAL},
	 .fp = 0x66,
	 .words = {{SP + FRAME_FP, 0x99}, {SP + FRAME_SP, SP + 0x900}, {SP + FRAME_IP, RETURN}},
	 .ending = ENDING_DEPTH_LIMIT,
	 .ip = RETURN,
	 .sp = SP + 0x900,
	 .caller_fp = 0x99},
	{"signal frame on another stack, above",
	 {.cfa_kind = CFA_SIGNAL},
	 .words = {{SP + FRAME_FP, 0x99}, {SP + FRAME_SP, ALT_STACK_SP}, {SP + FRAME_IP, RETURN}},
	 .ending = ENDING_DEPTH_LIMIT,
	 .ip = RETURN,
	 .sp = ALT_STACK_SP,
	 .caller_fp = 0x99},
	{"signal frame, no memory",
	 {.cfa_kind = CFA_SIGNAL},
	 .fault = {SP + FRAME_IP, 8},
	 .ending = ENDING_READ_FAULT},
};

Test(step, cfa)
{
	step_check_all(cfa_cases, ARRAY_SIZE(cfa_cases));
}

Test(step, registers)
{
	step_check_all(register_cases, ARRAY_SIZE(register_cases));
}

Test(step, signals)
{
	step_check_all(signal_cases, ARRAY_SIZE(signal_cases));
}

/* The registers are those of the sample: a caller's frame cannot have them, wherever its rule needs them. */
Test(step, registers_of_callers_are_unknown)
{
	static const struct elf_rule rules[] = {
		{.cfa_kind = CFA_REG_OFF, .cfa_reg = 10, .cfa_off = 8, .ra = RA_AT_CFA},
		{.cfa_kind = CFA_DEREF_SP_R9, .cfa_off = 8, .ra = RA_AT_CFA},
		{.cfa_kind = CFA_REG_OFF, .cfa_reg = DWARF_SP, .cfa_off = 8, .ra = RA_IN(5)},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		_cleanup_machine_ struct machine *m = machine_new();
		const struct machine_row rows[] = {{LEAF, RULE_SP(8)},
						   {LEAF + 0x100, RULE_NONE},
						   {CALLER, rules[i]},
						   {CALLER + 0x100, RULE_NONE}};

		machine_memory(m, STACK, STACK_BYTES);
		machine_poke(m, SP, RETURN);
		machine_map_table(m, BIAS, FILE_INDEX, rows, ARRAY_SIZE(rows));
		expect_ending(machine_unwind(m, BIAS + LEAF, SP, 0, 8), ENDING_UNSUPPORTED_RULE);
		cr_expect_eq(m->n_register_requests, 0);
		cr_expect_eq(m->area.state.n, 2);
		expect_frame(m, 1, FILE_INDEX, AT_CALLER - BIAS);
	}
}
