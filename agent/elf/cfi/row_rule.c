// SPDX-License-Identifier: Apache-2.0
/*
 * Some decisions are made when a row is written, since call-frame instructions may come in any order:
 *
 * - An undefined return address marks the outermost frame.
 *
 * - Signal trampolines: the FDE of glibc's __restore_rt has expressions that find every register in the
 * ucontext_t at the stack pointer. It begins one byte early, so that a lookup of pc - 1 finds it; its row
 * begins   there, too. On aarch64, the kernel's own trampoline has the frame record at x29 instead.
 *
 * - A rule for the stack pointer itself (longjmp, setcontext, GHC's StgRun): the caller's stack pointer is
 * not the CFA. rule.h cannot express that and need not: registers saved at CFA + n are saved at reg + (off +
 * n). If they are rewritten in this way, the CFA of the row can be the caller's stack pointer.
 */
#include "agent/elf/cfi/row_rule.h"

#include <elf.h>

const struct elf_rule row_rule_x86_signal = {
	.cfa_kind = CFA_SIGNAL,
	.fp = {.kind = REG_DEREF_REG, .reg = X86_RSP, .off = X86_UCONTEXT_RBP},
	.ra = {.kind = REG_DEREF_REG, .reg = X86_RSP, .off = X86_UCONTEXT_RIP},
};

static bool is_signal_frame(const struct elf_arch *arch, const struct elf_rule *r)
{
	if (arch->machine == EM_X86_64)
		return r->cfa_kind == CFA_DEREF_REG && r->cfa_reg == X86_RSP &&
		       r->cfa_off == X86_UCONTEXT_RSP && r->cfa_add == 0;
	return r->cfa_kind == CFA_REG_OFF && r->cfa_off == 0 &&
	       (r->cfa_reg == ARM64_X29 || r->cfa_reg == ARM64_SP);
}

/*
 * Rewrites "at CFA + n" to "at reg + n". False if the CFA is not register + offset, or if a sum exceeds 32
 * bits.
 */
static bool detach(struct elf_reg_rule *rule, const struct elf_rule *cfa)
{
	int32_t off;

	if (rule->kind != REG_CFA_OFF)
		return true;
	if (cfa->cfa_kind != CFA_REG_OFF || __builtin_add_overflow(cfa->cfa_off, rule->off, &off))
		return false;
	*rule = (struct elf_reg_rule){.kind = REG_DEREF_REG, .reg = cfa->cfa_reg, .off = off};
	return true;
}

/* Rewrites "at reg + n" to "at CFA + n" where it can. */
static void attach(struct elf_reg_rule *rule, const struct elf_rule *cfa)
{
	int32_t off;

	if (rule->kind == REG_DEREF_REG && cfa->cfa_kind == CFA_REG_OFF && rule->reg == cfa->cfa_reg &&
	    !__builtin_sub_overflow(rule->off, cfa->cfa_off, &off))
		*rule = (struct elf_reg_rule){.kind = REG_CFA_OFF, .off = off};
}

static bool replace_cfa(struct elf_rule *r, struct elf_reg_rule sp)
{
	if (!detach(&sp, r) || !detach(&r->fp, r) || !detach(&r->ra, r))
		return false;
	if (sp.kind != REG_REGISTER && sp.kind != REG_DEREF_REG)
		return false;
	r->cfa_kind = sp.kind == REG_REGISTER ? CFA_REG_OFF : CFA_DEREF_REG;
	r->cfa_reg = sp.reg;
	r->cfa_off = sp.off;
	r->cfa_add = 0;
	attach(&r->fp, r);
	attach(&r->ra, r);
	return true;
}

static void clear_cfa(struct elf_rule *r, enum cfa_kind kind)
{
	r->cfa_kind = (uint8_t)kind;
	r->cfa_reg = 0;
	r->cfa_off = r->cfa_add = 0;
}

void row_rule_finish(const struct elf_arch *arch, bool signal, const struct elf_rule *rule,
		     struct elf_reg_rule sp, struct elf_rule *ret)
{
	*ret = *rule;
	/* on x86-64, the return address is on the stack: "unchanged", or no rule, cannot be followed */
	if (ret->ra.kind == REG_SAME && arch->ra_on_stack)
		ret->ra = (struct elf_reg_rule){.kind = REG_UNSUPPORTED};
	if (ret->ra.kind == REG_UNDEFINED) {
		if (ret->cfa_kind != CFA_REG_OFF) {
			clear_cfa(ret, CFA_UNDEFINED);
			ret->cfa_reg = RULE_NO_REG;
		}
		ret->cfa_kind = CFA_UNDEFINED;
	} else if (signal && is_signal_frame(arch, ret)) {
		if (!detach(&ret->fp, ret) || !detach(&ret->ra, ret))
			ret->fp.kind = ret->ra.kind = REG_UNSUPPORTED;
		clear_cfa(ret, CFA_SIGNAL);
	} else if (sp.kind != REG_SAME) {
		struct elf_rule replaced = *ret;

		if (replace_cfa(&replaced, sp))
			*ret = replaced;
		else
			clear_cfa(ret, CFA_UNSUPPORTED);
	}
	if (signal && ret->cfa_kind != CFA_SIGNAL && ret->cfa_kind != CFA_UNDEFINED)
		ret->flags = RULE_INTERRUPTS;
}
