// SPDX-License-Identifier: Apache-2.0
/*
 * The functions whose FDE lies, with the rows that their code has. All are glibc's, hand-written, and the
 * same bytes in every glibc looked at: 2.31, 2.36, 2.41 and 2.43 of Debian.
 *
 *	__mpn_addmul_1, __mpn_submul_1	push rbx and rbp, and say nothing of it
 *	_ZGV..._sincos, _sincosf	AVX wrappers with a frame of their own, not a word about it
 *	swapcontext			the stack pointer is the other context's already, the return
 *					address not yet on that stack. rdx points to that context (ucontext_t)
 *
 * The FDEs of all of them stay at CFA rsp+8, FP unchanged.
 */
#include "agent/elf/override.h"

#include "agent/base/cleanup.h"
#include "agent/elf/dwarf.h"

#define X86_UCONTEXT_RBP 120 /* offsetof(ucontext_t, uc_mcontext.gregs[REG_RBP]) */
#define X86_UCONTEXT_RSP 160
#define X86_UCONTEXT_RIP 168

#define RA_BELOW_CFA {.kind = REG_CFA_OFF, .off = -8}
#define FP_BELOW_CFA(n) {.kind = REG_CFA_OFF, .off = -(n)}

static const struct elf_rule rsp_16 = {
	.cfa_kind = CFA_REG_OFF, .cfa_reg = X86_RSP, .cfa_off = 16, .ra = RA_BELOW_CFA};
static const struct elf_rule rsp_16_fp_16 = {.cfa_kind = CFA_REG_OFF,
					     .cfa_reg = X86_RSP,
					     .cfa_off = 16,
					     .fp = FP_BELOW_CFA(16),
					     .ra = RA_BELOW_CFA};
static const struct elf_rule rsp_24_fp_24 = {.cfa_kind = CFA_REG_OFF,
					     .cfa_reg = X86_RSP,
					     .cfa_off = 24,
					     .fp = FP_BELOW_CFA(24),
					     .ra = RA_BELOW_CFA};
static const struct elf_rule rbp_16_fp_16 = {.cfa_kind = CFA_REG_OFF,
					     .cfa_reg = X86_RBP,
					     .cfa_off = 16,
					     .fp = FP_BELOW_CFA(16),
					     .ra = RA_BELOW_CFA};
static const struct elf_rule context_at_rdx = {
	.cfa_kind = CFA_DEREF_REG,
	.cfa_reg = X86_RDX,
	.cfa_off = X86_UCONTEXT_RSP,
	.fp = {.kind = REG_DEREF_REG, .reg = X86_RDX, .off = X86_UCONTEXT_RBP},
	.ra = {.kind = REG_DEREF_REG, .reg = X86_RDX, .off = X86_UCONTEXT_RIP},
};

static const struct override_row sincos_rows[] = {{1, &rsp_16_fp_16}, {4, &rbp_16_fp_16}, {204, NULL}};
static const struct override_row mul_1_rows[] = {
	{1, &rsp_16}, {2, &rsp_24_fp_24}, {233, &rsp_16}, {234, NULL}};
static const struct override_row swapcontext_rows[] = {{175, &context_at_rdx}, {210, NULL}};
static const struct override_row sincosf_rows[] = {{1, &rsp_16_fp_16}, {4, &rbp_16_fp_16}, {330, NULL}};

#define ROWS(array) .rows = (array), .n_rows = ARRAY_SIZE(array)

const struct override override_list[] = {
	{"_ZGVcN4vvv_sincos", 205, 0, 205, 0x77cd250bbcef75c6, ROWS(sincos_rows)},
	{"__mpn_addmul_1", 235, 0, 235, 0xe73269da94b01bc9, ROWS(mul_1_rows)},
	{"__mpn_submul_1", 235, 0, 235, 0x907a1d49b3c96131, ROWS(mul_1_rows)},
	{"swapcontext", 260, 152, 243, 0x0004cdb5e8a655fd, ROWS(swapcontext_rows)},
	{"_ZGVcN8vvv_sincosf", 331, 0, 331, 0x59f8b23337dea08c, ROWS(sincosf_rows)},
};
const size_t override_list_n = ARRAY_SIZE(override_list);
