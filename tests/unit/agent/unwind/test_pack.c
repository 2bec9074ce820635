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
#define RA(n) {.ra = (n)}
#define IN(n) {.reg = (n)}
#define RSP 7
#define RBP 6
#define SP 31 /* of aarch64 */
#define X29 29
#define X30 30

struct pack_case {
	const char *name;
	struct elf_rule rule;
	struct unwind_rule packed;
};

static const struct pack_case cfa_cases[] = {
	{"rsp + 8",
	 {.cfa_kind = CFA_REG_OFF, .cfa_reg = RSP, .cfa_off = 8, .ra = RA_AT_CFA},
	 {8, 0, KIND(SP, SAME), RA(-1)}},
	{"rbp + 16",
	 {.cfa_kind = CFA_REG_OFF, .cfa_reg = RBP, .cfa_off = 16, .ra = RA_AT_CFA},
	 {16, 0, KIND(FP, SAME), RA(-1)}},
	{"r10 - 8",
	 {.cfa_kind = CFA_REG_OFF, .cfa_reg = 10, .cfa_off = -8, .ra = RA_AT_CFA},
	 {-8, 0, KIND(REG, SAME), IN(10)}},
	{"rsp + 2 GiB",
	 {.cfa_kind = CFA_REG_OFF, .cfa_reg = RSP, .cfa_off = INT32_MAX, .ra = RA_AT_CFA},
	 {INT32_MAX, 0, KIND(SP, SAME), RA(-1)}},
	{"register 31",
	 {.cfa_kind = CFA_REG_OFF, .cfa_reg = 31, .ra = RA_AT_CFA},
	 {0, 0, KIND(REG, SAME), IN(31)}},
	{"register 32", {.cfa_kind = CFA_REG_OFF, .cfa_reg = 32, .ra = RA_AT_CFA}, UNSUPPORTED},
	{"*(rsp + 24) + 16",
	 {.cfa_kind = CFA_DEREF_REG, .cfa_reg = RSP, .cfa_off = 24, .cfa_add = 16, .ra = RA_AT_CFA},
	 {PAIR(24, 16), 0, KIND(DEREF_SP, SAME), RA(-1)}},
	{"*(rbp - 56) - 8",
	 {.cfa_kind = CFA_DEREF_REG, .cfa_reg = RBP, .cfa_off = -56, .cfa_add = -8, .ra = RA_AT_CFA},
	 {PAIR(-56, -8), 0, KIND(DEREF_FP, SAME), RA(-1)}},
	{"*(rbp - 32768) + 32767",
	 {.cfa_kind = CFA_DEREF_REG,
	  .cfa_reg = RBP,
	  .cfa_off = INT16_MIN,
	  .cfa_add = INT16_MAX,
	  .ra = RA_AT_CFA},
	 {PAIR(INT16_MIN, INT16_MAX), 0, KIND(DEREF_FP, SAME), RA(-1)}},
	{"*(rbp - 32769)",
	 {.cfa_kind = CFA_DEREF_REG, .cfa_reg = RBP, .cfa_off = INT16_MIN - 1, .ra = RA_AT_CFA},
	 UNSUPPORTED},
	{"*(rbp) + 32768",
	 {.cfa_kind = CFA_DEREF_REG, .cfa_reg = RBP, .cfa_add = INT16_MAX + 1, .ra = RA_AT_CFA},
	 UNSUPPORTED},
	{"*(r10)", {.cfa_kind = CFA_DEREF_REG, .cfa_reg = 10, .ra = RA_AT_CFA}, UNSUPPORTED},
	{"*(rsp + r9 * 8 + 64) + 8",
	 {.cfa_kind = CFA_DEREF_SP_R9, .cfa_off = 64, .cfa_add = 8, .ra = RA_AT_CFA},
	 {PAIR(64, 8), 0, KIND(DEREF_INDEX, SAME), RA(-1)}},
	{"*(rsp + r9 * 8 + 32768)",
	 {.cfa_kind = CFA_DEREF_SP_R9, .cfa_off = 32768, .ra = RA_AT_CFA},
	 UNSUPPORTED},
	{"plt", {.cfa_kind = CFA_PLT, .cfa_off = 11, .ra = RA_AT_CFA}, {11, 0, KIND(PLT, SAME), RA(-1)}},
	{"signal", {.cfa_kind = CFA_SIGNAL}, {0, 0, UNWIND_CFA_SIGNAL, RA(0)}},
	{"signal, whatever the rest",
	 {.cfa_kind = CFA_SIGNAL, .fp = {.kind = REG_UNSUPPORTED}},
	 {0, 0, UNWIND_CFA_SIGNAL, RA(0)}},
	{"root",
	 {.cfa_kind = CFA_UNDEFINED, .cfa_reg = RULE_NO_REG, .ra = {.kind = REG_UNDEFINED}},
	 {0, 0, UNWIND_CFA_ROOT, RA(0)}},
	{"none", {.cfa_kind = CFA_NONE}, {0, 0, UNWIND_CFA_NONE, RA(0)}},
	{"switch",
	 {.cfa_kind = CFA_SWITCH, .cfa_reg = RBP, .cfa_off = 16},
	 {16, 0, UNWIND_CFA_SWITCH, RA(0)}},
	{"switch that omits the caller",
	 {.cfa_kind = CFA_SWITCH, .cfa_reg = RBP, .cfa_off = 16, .cfa_add = 1},
	 {16, 0, UNWIND_CFA_SWITCH, RA(1)}},
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
	{"fp same", WITH_FP(.kind = REG_SAME), {32, 0, KIND(SP, SAME), RA(-1)}},
	{"fp at CFA - 16", WITH_FP(.kind = REG_CFA_OFF, .off = -16), {32, -2, KIND(SP, CFA), RA(-1)}},
	{"fp at CFA - 12", WITH_FP(.kind = REG_CFA_OFF, .off = -12), UNSUPPORTED},
	{"fp at CFA - 262144",
	 WITH_FP(.kind = REG_CFA_OFF, .off = INT16_MIN * 8),
	 {32, INT16_MIN, KIND(SP, CFA), RA(-1)}},
	{"fp at CFA - 262152", WITH_FP(.kind = REG_CFA_OFF, .off = INT16_MIN * 8 - 8), UNSUPPORTED},
	{"fp at CFA + 262136",
	 WITH_FP(.kind = REG_CFA_OFF, .off = INT16_MAX * 8),
	 {32, INT16_MAX, KIND(SP, CFA), RA(-1)}},
	{"fp at CFA + 262144", WITH_FP(.kind = REG_CFA_OFF, .off = INT16_MAX * 8 + 8), UNSUPPORTED},
	{"fp at rbp - 40",
	 WITH_FP(.kind = REG_DEREF_REG, .reg = RBP, .off = -40),
	 {32, -5, KIND(SP, FP), RA(-1)}},
	{"fp at rbp, nothing left of the frame",
	 {.cfa_kind = CFA_REG_OFF,
	  .cfa_reg = RSP,
	  .cfa_off = 8,
	  .ra = RA_AT_CFA,
	  .fp = {.kind = REG_DEREF_REG, .reg = RBP}},
	 {8, 0, KIND(SP, SAME), RA(-1)}},
	{"fp at rsp + 8", WITH_FP(.kind = REG_DEREF_REG, .reg = RSP, .off = 8), UNSUPPORTED},
	{"fp undefined", WITH_FP(.kind = REG_UNDEFINED), {32, 0, KIND(SP, UNDEFINED), RA(-1)}},
	{"fp in rbx", WITH_FP(.kind = REG_REGISTER, .reg = 3), UNSUPPORTED},
	{"fp by another expression", WITH_FP(.kind = REG_UNSUPPORTED), UNSUPPORTED},
	{"ra at CFA - 16", WITH_RA(.kind = REG_CFA_OFF, .off = -16), UNSUPPORTED},
	{"ra in rdi",
	 WITH_RA(.kind = REG_REGISTER, .reg = 5),
	 {32, 0, KIND(SP, SAME) | UNWIND_RA_REG, IN(5)}},
	{"the caller was interrupted",
	 {.cfa_kind = CFA_REG_OFF, .cfa_reg = RSP, .cfa_off = 32, .flags = RULE_INTERRUPTS, .ra = RA_AT_CFA},
	 {32, 0, KIND(SP, SAME) | UNWIND_RA_EXACT, RA(-1)}},
	{"ra in register 32", WITH_RA(.kind = REG_REGISTER, .reg = 32), UNSUPPORTED},
	{"ra same", WITH_RA(.kind = REG_SAME), UNSUPPORTED},
	{"ra undefined without a root", WITH_RA(.kind = REG_UNDEFINED), UNSUPPORTED},
	{"ra by an expression", WITH_RA(.kind = REG_DEREF_REG, .reg = RSP), UNSUPPORTED},
	{"ra in rdx, CFA by r8: two registers",
	 {.cfa_kind = CFA_REG_OFF, .cfa_reg = 8, .ra = {.kind = REG_REGISTER, .reg = 1}},
	 UNSUPPORTED},
};

#define FRAME(bytes, ...) {.cfa_kind = CFA_REG_OFF, .cfa_reg = SP, .cfa_off = (bytes), __VA_ARGS__}
#define AT_CFA_MINUS(n) {.kind = REG_CFA_OFF, .off = -(n)}

static const struct pack_case aarch64_cases[] = {
	{"x30 at CFA - 8", FRAME(16, .ra = AT_CFA_MINUS(8)), {16, 0, KIND(SP, SAME), RA(-1)}},
	{"x30 at the frame's bottom", FRAME(96, .ra = AT_CFA_MINUS(96)), {96, 0, KIND(SP, SAME), RA(-12)}},
	{"x30 at CFA - 1024", FRAME(1024, .ra = AT_CFA_MINUS(1024)), {1024, 0, KIND(SP, SAME), RA(-128)}},
	{"x30 at CFA - 1032", FRAME(1032, .ra = AT_CFA_MINUS(1032)), {1032, -129, KIND(SP, SAME), RA(0)}},
	{"x30 at CFA - 262,144",
	 FRAME(262144, .ra = AT_CFA_MINUS(262144)),
	 {262144, -32768, KIND(SP, SAME), RA(0)}},
	{"x30 at CFA - 262,152", FRAME(262152, .ra = AT_CFA_MINUS(262152)), UNSUPPORTED},
	{"x29 undefined, x30 at CFA - 1032",
	 FRAME(1032, .fp = {.kind = REG_UNDEFINED}, .ra = AT_CFA_MINUS(1032)),
	 {1032, -129, KIND(SP, UNDEFINED), RA(0)}},
	{"x29 at x29 + 16, x30 at CFA - 1032",
	 FRAME(1032, .fp = {.kind = REG_DEREF_REG, .reg = X29, .off = 16}, .ra = AT_CFA_MINUS(1032)),
	 UNSUPPORTED},
	{"x30 at CFA + 1016", FRAME(16, .ra = AT_CFA_MINUS(-1016)), {16, 0, KIND(SP, SAME), RA(127)}},
	{"x30 at CFA + 1024", FRAME(16, .ra = AT_CFA_MINUS(-1024)), {16, 128, KIND(SP, SAME), RA(0)}},
	{"x30 at CFA - 12", FRAME(16, .ra = AT_CFA_MINUS(12)), UNSUPPORTED},
	{"x29 + 16",
	 {.cfa_kind = CFA_REG_OFF,
	  .cfa_reg = X29,
	  .cfa_off = 16,
	  .fp = AT_CFA_MINUS(16),
	  .ra = AT_CFA_MINUS(8)},
	 {16, -2, KIND(FP, CFA), RA(1)}},
	{"x29 and x30 at a large frame's bottom",
	 FRAME(65536, .fp = AT_CFA_MINUS(65536), .ra = AT_CFA_MINUS(65528)),
	 {65536, -8192, KIND(SP, CFA), RA(1)}},
	{"x30 below x29",
	 FRAME(48, .fp = AT_CFA_MINUS(8), .ra = AT_CFA_MINUS(48)),
	 {48, -1, KIND(SP, CFA), RA(-5)}},
	{"x30 1,016 bytes above x29",
	 FRAME(4096, .fp = AT_CFA_MINUS(4096), .ra = AT_CFA_MINUS(4096 - 1016)),
	 {4096, -512, KIND(SP, CFA), RA(127)}},
	{"x30 1,024 bytes above x29", FRAME(4096, .fp = AT_CFA_MINUS(4096), .ra = AT_CFA_MINUS(4096 - 1024)),
	 UNSUPPORTED},
	{"x29 undefined",
	 FRAME(32, .fp = {.kind = REG_UNDEFINED}, .ra = AT_CFA_MINUS(32)),
	 {32, 0, KIND(SP, UNDEFINED), RA(-4)}},
	{"x29 at x29 + 16, x30 from the CFA",
	 FRAME(32, .fp = {.kind = REG_DEREF_REG, .reg = X29, .off = 16}, .ra = AT_CFA_MINUS(32)),
	 {32, 2, KIND(SP, FP), RA(-4)}},
	{"a leaf", FRAME(0), {0, 0, KIND(SP, SAME) | UNWIND_RA_REG, IN(X30)}},
	{"a leaf that saved x29",
	 FRAME(16, .fp = AT_CFA_MINUS(16)),
	 {16, -2, KIND(SP, CFA) | UNWIND_RA_REG, IN(X30)}},
	{"return address in x17",
	 FRAME(0, .ra = {.kind = REG_REGISTER, .reg = 17}),
	 {0, 0, KIND(SP, SAME) | UNWIND_RA_REG, IN(17)}},
	{"CFA by x7, x30 at CFA - 8",
	 {.cfa_kind = CFA_REG_OFF, .cfa_reg = 7, .cfa_off = 16, .ra = AT_CFA_MINUS(8)},
	 {16, 0, KIND(REG, SAME), IN(7)}},
	{"CFA by x7, x30 behind x29",
	 {.cfa_kind = CFA_REG_OFF,
	  .cfa_reg = 7,
	  .cfa_off = 16,
	  .fp = AT_CFA_MINUS(64),
	  .ra = AT_CFA_MINUS(56)},
	 {16, -8, KIND(REG, CFA), IN(7)}},
	{"CFA by x7, x30 elsewhere",
	 {.cfa_kind = CFA_REG_OFF, .cfa_reg = 7, .cfa_off = 16, .ra = AT_CFA_MINUS(16)},
	 UNSUPPORTED},
	{"CFA by x7 in a leaf: two registers", {.cfa_kind = CFA_REG_OFF, .cfa_reg = 7}, UNSUPPORTED},
	{"x29 at x29, CFA sp + 8: no epilogue of x86-64",
	 FRAME(8, .fp = {.kind = REG_DEREF_REG, .reg = X29}, .ra = AT_CFA_MINUS(8)),
	 {8, 0, KIND(SP, FP), RA(-1)}},
	{"switch",
	 {.cfa_kind = CFA_SWITCH, .cfa_reg = X29, .cfa_off = 64},
	 {64, 0, UNWIND_CFA_SWITCH, RA(0)}},
	{"signal", {.cfa_kind = CFA_SIGNAL}, {0, 0, UNWIND_CFA_SIGNAL, RA(0)}},
};

static const struct pack_case other_cases[] = {
	{"a machine of tomorrow", {.cfa_kind = CFA_REG_OFF, .cfa_reg = RSP, .ra = RA_AT_CFA}, UNSUPPORTED},
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

Test(pack, other_machines)
{
	check(other_cases, ARRAY_SIZE(other_cases), EM_RISCV);
}
