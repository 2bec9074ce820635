// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <elf.h>

#include "agent/base/cleanup.h"
#include "agent/elf/cfi/rule.h"
#include "agent/unwind/pack.h"

#define RA_AT_CFA {.kind = REG_CFA_OFF, .off = -8}
#define KIND(cfa, fp) (UNWIND_CFA_##cfa | UNWIND_FP_##fp << UNWIND_FP_SHIFT)
#define PAIR(off, add) ((int32_t)((uint32_t)(add) << 16 | (uint16_t)(off)))
#define UNSUPPORTED {.kind = UNWIND_CFA_UNSUPPORTED}
#define RSP 7
#define RBP 6

struct pack_case {
	const char *name;
	struct elf_rule rule;
	struct unwind_rule packed;
};

static const struct pack_case cfa_cases[] = {
	{"rsp + 8",
	 {.cfa_kind = CFA_REG_OFF, .cfa_reg = RSP, .cfa_off = 8, .ra = RA_AT_CFA},
	 {8, 0, KIND(SP, SAME), RSP}},
	{"rbp + 16",
	 {.cfa_kind = CFA_REG_OFF, .cfa_reg = RBP, .cfa_off = 16, .ra = RA_AT_CFA},
	 {16, 0, KIND(FP, SAME), RBP}},
	{"r10 - 8",
	 {.cfa_kind = CFA_REG_OFF, .cfa_reg = 10, .cfa_off = -8, .ra = RA_AT_CFA},
	 {-8, 0, KIND(REG, SAME), 10}},
	{"rsp + 2 GiB",
	 {.cfa_kind = CFA_REG_OFF, .cfa_reg = RSP, .cfa_off = INT32_MAX, .ra = RA_AT_CFA},
	 {INT32_MAX, 0, KIND(SP, SAME), RSP}},
	{"register 31",
	 {.cfa_kind = CFA_REG_OFF, .cfa_reg = 31, .ra = RA_AT_CFA},
	 {0, 0, KIND(REG, SAME), 31}},
	{"register 32", {.cfa_kind = CFA_REG_OFF, .cfa_reg = 32, .ra = RA_AT_CFA}, UNSUPPORTED},
	{"*(rsp + 24) + 16",
	 {.cfa_kind = CFA_DEREF_REG, .cfa_reg = RSP, .cfa_off = 24, .cfa_add = 16, .ra = RA_AT_CFA},
	 {PAIR(24, 16), 0, KIND(DEREF_SP, SAME), 0}},
	{"*(rbp - 56) - 8",
	 {.cfa_kind = CFA_DEREF_REG, .cfa_reg = RBP, .cfa_off = -56, .cfa_add = -8, .ra = RA_AT_CFA},
	 {PAIR(-56, -8), 0, KIND(DEREF_FP, SAME), 0}},
	{"*(rbp - 32768) + 32767",
	 {.cfa_kind = CFA_DEREF_REG,
	  .cfa_reg = RBP,
	  .cfa_off = INT16_MIN,
	  .cfa_add = INT16_MAX,
	  .ra = RA_AT_CFA},
	 {PAIR(INT16_MIN, INT16_MAX), 0, KIND(DEREF_FP, SAME), 0}},
	{"*(rbp - 32769)",
	 {.cfa_kind = CFA_DEREF_REG, .cfa_reg = RBP, .cfa_off = INT16_MIN - 1, .ra = RA_AT_CFA},
	 UNSUPPORTED},
	{"*(rbp) + 32768",
	 {.cfa_kind = CFA_DEREF_REG, .cfa_reg = RBP, .cfa_add = INT16_MAX + 1, .ra = RA_AT_CFA},
	 UNSUPPORTED},
	{"*(r10)", {.cfa_kind = CFA_DEREF_REG, .cfa_reg = 10, .ra = RA_AT_CFA}, UNSUPPORTED},
	{"*(rsp + r9 * 8 + 64) + 8",
	 {.cfa_kind = CFA_DEREF_SP_R9, .cfa_off = 64, .cfa_add = 8, .ra = RA_AT_CFA},
	 {PAIR(64, 8), 0, KIND(DEREF_R9, SAME), 0}},
	{"*(rsp + r9 * 8 + 32768)",
	 {.cfa_kind = CFA_DEREF_SP_R9, .cfa_off = 32768, .ra = RA_AT_CFA},
	 UNSUPPORTED},
	{"plt", {.cfa_kind = CFA_PLT, .cfa_off = 11, .ra = RA_AT_CFA}, {11, 0, KIND(PLT, SAME), 0}},
	{"signal", {.cfa_kind = CFA_SIGNAL}, {0, 0, UNWIND_CFA_SIGNAL, 0}},
	{"signal, whatever the rest",
	 {.cfa_kind = CFA_SIGNAL, .fp = {.kind = REG_UNSUPPORTED}},
	 {0, 0, UNWIND_CFA_SIGNAL, 0}},
	{"root",
	 {.cfa_kind = CFA_UNDEFINED, .cfa_reg = RULE_NO_REG, .ra = {.kind = REG_UNDEFINED}},
	 {0, 0, UNWIND_CFA_ROOT, 0}},
	{"none", {.cfa_kind = CFA_NONE}, {0, 0, UNWIND_CFA_NONE, 0}},
	{"switch", {.cfa_kind = CFA_SWITCH, .cfa_reg = RBP, .cfa_off = 16}, {16, 0, UNWIND_CFA_SWITCH, 0}},
	{"switch by another register", {.cfa_kind = CFA_SWITCH, .cfa_reg = RSP, .cfa_off = 16}, UNSUPPORTED},
	{"unsupported", {.cfa_kind = CFA_UNSUPPORTED, .ra = RA_AT_CFA}, UNSUPPORTED},
	{"a kind of tomorrow", {.cfa_kind = 200, .ra = RA_AT_CFA}, UNSUPPORTED},
};

#define WITH_FP(...)                                                                     \
	{                                                                                \
		.cfa_kind = CFA_REG_OFF, .cfa_reg = RSP, .cfa_off = 32, .ra = RA_AT_CFA, \
		.fp = { __VA_ARGS__ }                                                    \
	}
#define WITH_RA(...)                                                                          \
	{                                                                                     \
		.cfa_kind = CFA_REG_OFF, .cfa_reg = RSP, .cfa_off = 32, .ra = { __VA_ARGS__ } \
	}

static const struct pack_case register_cases[] = {
	{"fp same", WITH_FP(.kind = REG_SAME), {32, 0, KIND(SP, SAME), RSP}},
	{"fp at CFA - 16", WITH_FP(.kind = REG_CFA_OFF, .off = -16), {32, -2, KIND(SP, CFA), RSP}},
	{"fp at CFA - 12", WITH_FP(.kind = REG_CFA_OFF, .off = -12), UNSUPPORTED},
	{"fp at CFA - 262144",
	 WITH_FP(.kind = REG_CFA_OFF, .off = INT16_MIN * 8),
	 {32, INT16_MIN, KIND(SP, CFA), RSP}},
	{"fp at CFA - 262152", WITH_FP(.kind = REG_CFA_OFF, .off = INT16_MIN * 8 - 8), UNSUPPORTED},
	{"fp at CFA + 262136",
	 WITH_FP(.kind = REG_CFA_OFF, .off = INT16_MAX * 8),
	 {32, INT16_MAX, KIND(SP, CFA), RSP}},
	{"fp at CFA + 262144", WITH_FP(.kind = REG_CFA_OFF, .off = INT16_MAX * 8 + 8), UNSUPPORTED},
	{"fp at rbp - 40",
	 WITH_FP(.kind = REG_DEREF_REG, .reg = RBP, .off = -40),
	 {32, -5, KIND(SP, FP), RSP}},
	{"fp at rbp, nothing left of the frame",
	 {.cfa_kind = CFA_REG_OFF,
	  .cfa_reg = RSP,
	  .cfa_off = 8,
	  .ra = RA_AT_CFA,
	  .fp = {.kind = REG_DEREF_REG, .reg = RBP}},
	 {8, 0, KIND(SP, SAME), RSP}},
	{"fp at rsp + 8", WITH_FP(.kind = REG_DEREF_REG, .reg = RSP, .off = 8), UNSUPPORTED},
	{"fp undefined", WITH_FP(.kind = REG_UNDEFINED), {32, 0, KIND(SP, UNDEFINED), RSP}},
	{"fp in rbx", WITH_FP(.kind = REG_REGISTER, .reg = 3), UNSUPPORTED},
	{"fp by another expression", WITH_FP(.kind = REG_UNSUPPORTED), UNSUPPORTED},
	{"ra at CFA - 16", WITH_RA(.kind = REG_CFA_OFF, .off = -16), UNSUPPORTED},
	{"ra in rdi", WITH_RA(.kind = REG_REGISTER, .reg = 5), {32, 0, KIND(SP, SAME) | UNWIND_RA_REG, 5}},
	{"the caller was interrupted",
	 {.cfa_kind = CFA_REG_OFF, .cfa_reg = RSP, .cfa_off = 32, .flags = RULE_INTERRUPTS, .ra = RA_AT_CFA},
	 {32, 0, KIND(SP, SAME) | UNWIND_RA_EXACT, RSP}},
	{"ra in register 32", WITH_RA(.kind = REG_REGISTER, .reg = 32), UNSUPPORTED},
	{"ra same", WITH_RA(.kind = REG_SAME), UNSUPPORTED},
	{"ra undefined without a root", WITH_RA(.kind = REG_UNDEFINED), UNSUPPORTED},
	{"ra by an expression", WITH_RA(.kind = REG_DEREF_REG, .reg = RSP), UNSUPPORTED},
	{"ra in rdx, CFA by r8: two registers",
	 {.cfa_kind = CFA_REG_OFF, .cfa_reg = 8, .ra = {.kind = REG_REGISTER, .reg = 1}},
	 UNSUPPORTED},
};

static const struct pack_case aarch64_cases[] = {
	{"sp + 16",
	 {.cfa_kind = CFA_REG_OFF, .cfa_reg = 31, .cfa_off = 16, .ra = RA_AT_CFA},
	 {16, 0, KIND(SP, SAME), 31}},
	{"x29 + 16",
	 {.cfa_kind = CFA_REG_OFF, .cfa_reg = 29, .cfa_off = 16, .ra = RA_AT_CFA},
	 {16, 0, KIND(FP, SAME), 29}},
	{"x7 + 16",
	 {.cfa_kind = CFA_REG_OFF, .cfa_reg = 7, .cfa_off = 16, .ra = RA_AT_CFA},
	 {16, 0, KIND(REG, SAME), 7}},
	{"ra at CFA - 8, x29 at CFA - 16",
	 {.cfa_kind = CFA_REG_OFF,
	  .cfa_reg = 31,
	  .cfa_off = 16,
	  .fp = {.kind = REG_CFA_OFF, .off = -16},
	  .ra = RA_AT_CFA},
	 {16, -2, KIND(SP, CFA), 31}},
};

static void check(const struct pack_case *cases, size_t n, uint16_t machine)
{
	for (size_t i = 0; i < n; i++) {
		const struct unwind_rule want = cases[i].packed,
					 got = unwind_rule_pack(&cases[i].rule, machine);

		cr_expect(got.cfa == want.cfa && got.fp == want.fp && got.kind == want.kind &&
				  got.reg == want.reg,
			  "%s: cfa %d fp %d kind %#x reg %u", cases[i].name, got.cfa, got.fp, got.kind,
			  got.reg);
	}
}

Test(pack, cfa)
{
	check(cfa_cases, ARRAY_SIZE(cfa_cases), EM_X86_64);
}

Test(pack, registers)
{
	check(register_cases, ARRAY_SIZE(register_cases), EM_X86_64);
}

Test(pack, aarch64)
{
	check(aarch64_cases, ARRAY_SIZE(aarch64_cases), EM_AARCH64);
}
