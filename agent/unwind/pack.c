// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/pack.h"

#include <elf.h>
#include <stdbool.h>

#include "agent/elf/cfi/rule.h"

/* DWARF numbers of what the rules are about. */
struct registers {
	uint8_t sp, fp;
};

static struct registers registers_of(uint16_t machine)
{
	return machine == EM_AARCH64 ? (struct registers){31, 29} : (struct registers){7, 6};
}

static bool fits_s16(int32_t v)
{
	return v >= INT16_MIN && v <= INT16_MAX;
}

/* Two 16-bit halves, as UNWIND_CFA_DEREF_* has them. */
static bool pack_pair(int32_t off, int32_t add, int32_t *ret)
{
	if (!fits_s16(off) || !fits_s16(add))
		return false;
	*ret = (int32_t)((uint32_t)add << 16 | (uint16_t)off);
	return true;
}

static bool pack_cfa(const struct elf_rule *r, struct registers regs, struct unwind_rule *ret)
{
	switch ((enum cfa_kind)r->cfa_kind) {
	case CFA_REG_OFF:
		ret->cfa = r->cfa_off;
		ret->reg = r->cfa_reg;
		ret->kind = r->cfa_reg == regs.sp   ? UNWIND_CFA_SP
			    : r->cfa_reg == regs.fp ? UNWIND_CFA_FP
						    : UNWIND_CFA_REG;
		return r->cfa_reg < 32;
	case CFA_DEREF_REG:
		ret->kind = r->cfa_reg == regs.sp ? UNWIND_CFA_DEREF_SP : UNWIND_CFA_DEREF_FP;
		return (r->cfa_reg == regs.sp || r->cfa_reg == regs.fp) &&
		       pack_pair(r->cfa_off, r->cfa_add, &ret->cfa);
	case CFA_DEREF_SP_R9:
		ret->kind = UNWIND_CFA_DEREF_R9;
		return pack_pair(r->cfa_off, r->cfa_add, &ret->cfa);
	case CFA_PLT:
		ret->kind = UNWIND_CFA_PLT;
		ret->cfa = r->cfa_off;
		return true;
	case CFA_SIGNAL:
		ret->kind = UNWIND_CFA_SIGNAL;
		return true;
	case CFA_UNDEFINED:
		ret->kind = UNWIND_CFA_ROOT;
		return true;
	case CFA_NONE:
		ret->kind = UNWIND_CFA_NONE;
		return true;
	case CFA_SWITCH:
		ret->kind = UNWIND_CFA_SWITCH;
		ret->cfa = r->cfa_off;
		return r->cfa_reg == regs.fp;
	case CFA_UNSUPPORTED:
		break;
	}
	return false;
}

/*
 * GCC's epilogue of a function with aligned locals: the frame pointer is restored, but until the return
 * described as saved at its old value. With the CFA at sp + 8 there is only the return address left of the
 * frame.
 */
static bool is_restored(const struct elf_rule *r, struct registers regs)
{
	return regs.sp == 7 && r->cfa_kind == CFA_REG_OFF && r->cfa_reg == regs.sp && r->cfa_off == 8 &&
	       r->fp.kind == REG_DEREF_REG && r->fp.reg == regs.fp;
}

static bool pack_fp(const struct elf_rule *r, struct registers regs, struct unwind_rule *ret)
{
	int32_t words = r->fp.off / 8;

	if (is_restored(r, regs))
		return true;
	switch ((enum reg_rule_kind)r->fp.kind) {
	case REG_SAME:
		return true;
	case REG_UNDEFINED:
		ret->kind |= UNWIND_FP_UNDEFINED << UNWIND_FP_SHIFT;
		return true;
	case REG_CFA_OFF:
		ret->kind |= UNWIND_FP_CFA << UNWIND_FP_SHIFT;
		break;
	case REG_DEREF_REG:
		if (r->fp.reg != regs.fp)
			return false;
		ret->kind |= UNWIND_FP_FP << UNWIND_FP_SHIFT;
		break;
	default:
		return false;
	}
	ret->fp = (int16_t)words;
	return r->fp.off % 8 == 0 && fits_s16(words);
}

static bool pack_ra(const struct elf_rule *r, struct unwind_rule *ret)
{
	if (r->ra.kind == REG_CFA_OFF)
		return r->ra.off == -8;
	if (r->ra.kind != REG_REGISTER || (ret->kind & UNWIND_CFA_MASK) == UNWIND_CFA_REG || r->ra.reg >= 32)
		return false; /* one register a rule */
	ret->kind |= UNWIND_RA_REG;
	ret->reg = r->ra.reg;
	return true;
}

struct unwind_rule unwind_rule_pack(const struct elf_rule *rule, uint16_t machine)
{
	struct registers regs = registers_of(machine);
	struct unwind_rule ret = {0};
	bool ok = pack_cfa(rule, regs, &ret);

	if (ok && ret.kind <= UNWIND_CFA_DEREF_R9 && ret.kind != UNWIND_CFA_SIGNAL &&
	    ret.kind != UNWIND_CFA_ROOT && ret.kind != UNWIND_CFA_NONE)
		ok = pack_fp(rule, regs, &ret) && pack_ra(rule, &ret);
	if (ok && rule->flags & RULE_INTERRUPTS)
		ret.kind |= UNWIND_RA_EXACT;
	if (!ok)
		return (struct unwind_rule){.kind = UNWIND_CFA_UNSUPPORTED};
	return ret;
}
