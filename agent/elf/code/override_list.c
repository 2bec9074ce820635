// SPDX-License-Identifier: Apache-2.0
/*
 * The functions whose FDE contradicts the code, with the right rows. All are written in assembly.
 *
 * glibc; seen in Debian's 2.31, 2.36, 2.41 and 2.43, whose code is the same unless a version is given:
 *
 *	__mpn_addmul_1, submul_1   pushes of rbx and rbp are not described
 *	swapcontext                rsp is already that of the other context, but the return address is not
 *	                           there yet; rdx points to that context (ucontext_t)
 *	_ZGV.N.vvv_sincos(f)       AVX; the frame is not described
 *	_ZGV.N.vl_sincos(f)        pushes are added to a CFA that is relative to rbp; 2.31 and 2.36
 *	_ZGVbN4vv_..._sse2         the frame has 32 bytes, the FDE says 40; 2.41 and 2.43
 *
 * OpenSSL 1.1.1 and 3.0:
 *
 *	bn_gather5                 an aligned frame of 264 bytes, with rsp saved in r10, is not described
 */
#include "agent/elf/code/override.h"

#include "agent/base/cleanup.h"
#include "agent/elf/file/arch.h"

/*
 * The CFA is rsp (rbp) + cfa, the caller's rbp is unchanged or saved at CFA - fp, the return address is at
 * CFA - 8.
 */
#define RULE(base, cfa, ...)                            \
	(&(const struct elf_rule){                      \
		.cfa_kind = CFA_REG_OFF,                \
		.cfa_reg = (base),                      \
		.cfa_off = (cfa),                       \
		.fp = {__VA_ARGS__},                    \
		.ra = {.kind = REG_CFA_OFF, .off = -8}, \
	})
#define RSP(cfa) RULE(X86_RSP, cfa, .kind = REG_SAME)
#define RSP_FP(cfa, fp) RULE(X86_RSP, cfa, .kind = REG_CFA_OFF, .off = -(fp))
#define R10(cfa) RULE(X86_R10, cfa, .kind = REG_SAME)
#define RBP_FP(cfa, fp) RULE(X86_RBP, cfa, .kind = REG_CFA_OFF, .off = -(fp))

static const struct elf_rule context_at_rdx = {
	.cfa_kind = CFA_DEREF_REG,
	.cfa_reg = X86_RDX,
	.cfa_off = X86_UCONTEXT_RSP,
	.fp = {.kind = REG_DEREF_REG, .reg = X86_RDX, .off = X86_UCONTEXT_RBP},
	.ra = {.kind = REG_DEREF_REG, .reg = X86_RDX, .off = X86_UCONTEXT_RIP},
};

static const struct override_row mul_1_rows[] = {
	{1, RSP(16)}, {2, RSP_FP(24, 24)}, {233, RSP(16)}, {234, NULL}};
static const struct override_row swapcontext_rows[] = {{175, &context_at_rdx}, {210, NULL}};
static const struct override_row vvv_sincos_rows[] = {{1, RSP_FP(16, 16)}, {4, RBP_FP(16, 16)}, {204, NULL}};
static const struct override_row vvv_sincosf_rows[] = {{1, RSP_FP(16, 16)}, {4, RBP_FP(16, 16)}, {330, NULL}};
static const struct override_row avx_sincos_rows[] = {{4, RBP_FP(16, 16)}, {93, NULL}};
static const struct override_row avx_sincosf_rows[] = {{4, RBP_FP(16, 16)}, {107, NULL}};
static const struct override_row avx512_sincos_rows[] = {{4, RBP_FP(16, 16)}, {106, NULL}};
static const struct override_row bn_gather5_rows[] = {{11, R10(8)}, {638, NULL}};
static const struct override_row sse2_vv_rows[] = {{5, RSP(48)}, {109, RSP(16)}, {110, RSP(8)}, {111, NULL}};

#define ROWS(array) .rows = (array), .n_rows = ARRAY_SIZE(array)

const struct override override_list[] = {
	{"_ZGV..N4vl8l8_sincos", 94, 0, 94, 0x91a6823d94b32321, ROWS(avx_sincos_rows)},
	{"_ZGVeN8vl8l8_sincos", 107, 0, 107, 0x3f8c9e171247c12a, ROWS(avx512_sincos_rows)},
	{"_ZGV..N8vl4l4_sincosf", 108, 0, 108, 0xa0f545a63126012b, ROWS(avx_sincosf_rows)},
	{"_ZGVbN4vv_..._sse2", 111, 0, 111, 0xdc2c5a1903b4e928, ROWS(sse2_vv_rows)},
	{"_ZGVcN4vvv_sincos", 205, 0, 205, 0x77cd250bbcef75c6, ROWS(vvv_sincos_rows)},
	{"__mpn_addmul_1", 235, 0, 235, 0xe73269da94b01bc9, ROWS(mul_1_rows)},
	{"__mpn_submul_1", 235, 0, 235, 0x907a1d49b3c96131, ROWS(mul_1_rows)},
	{"swapcontext", 260, 152, 243, 0x0004cdb5e8a655fd, ROWS(swapcontext_rows)},
	{"_ZGVcN8vvv_sincosf", 331, 0, 331, 0x59f8b23337dea08c, ROWS(vvv_sincosf_rows)},
	{"bn_gather5", 640, 0, 640, 0xa8316654e0843cfe, ROWS(bn_gather5_rows)},
};
const size_t override_list_n = ARRAY_SIZE(override_list);
