// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/pack.h"

#include <stdbool.h>

#include "agent/elf/cfi/rule.h"
#include "agent/elf/file/arch.h"

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

static bool pack_entered(const struct elf_rule *r, const struct elf_arch *arch, struct unwind_rule *ret)
{
	ret->kind = UNWIND_CFA_INTERPRETED;
	if (r->ra.kind == REG_REGISTER) {
		ret->cfa = UNWIND_ENTERED_REGISTER;
		ret->reg = r->ra.reg;
		return r->ra.reg < RULE_REGISTERS;
	}
	ret->cfa = r->cfa_reg == arch->fp ? UNWIND_ENTERED_RECORD : UNWIND_ENTERED_STACK;
	ret->fp = (int16_t)(r->cfa_off / 8);
	return (r->cfa_reg == arch->fp || r->cfa_reg == arch->sp) && r->cfa_off % 8 == 0 &&
	       fits_s16(r->cfa_off / 8);
}

static bool pack_cfa(const struct elf_rule *r, const struct elf_arch *arch, struct unwind_rule *ret)
{
	switch ((enum cfa_kind)r->cfa_kind) {
	case CFA_REG_OFF:
		ret->cfa = r->cfa_off;
		ret->kind = r->cfa_reg == arch->sp   ? UNWIND_CFA_SP
			    : r->cfa_reg == arch->fp ? UNWIND_CFA_FP
						     : UNWIND_CFA_REG;
		if (ret->kind == UNWIND_CFA_REG)
			ret->reg = r->cfa_reg;
		return r->cfa_reg < RULE_REGISTERS;
	case CFA_DEREF_REG:
		ret->kind = r->cfa_reg == arch->sp ? UNWIND_CFA_DEREF_SP : UNWIND_CFA_DEREF_FP;
		return (r->cfa_reg == arch->sp || r->cfa_reg == arch->fp) &&
		       pack_pair(r->cfa_off, r->cfa_add, &ret->cfa);
	case CFA_DEREF_SP_R9:
		ret->kind = UNWIND_CFA_DEREF_INDEX;
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
		ret->cfa = r->cfa_off; /* the same numbers */
		return true;
	case CFA_SWITCH:
		ret->kind = UNWIND_CFA_SWITCH;
		ret->cfa = r->cfa_off;
		ret->reg = r->cfa_add != 0;
		return r->cfa_reg == arch->fp;
	case CFA_INTERPRETED:
		ret->kind = UNWIND_CFA_INTERPRETED;
		ret->cfa = r->cfa_off;
		return true;
	case CFA_ENTERED:
		return pack_entered(r, arch, ret);
	case CFA_KEPT:
		ret->kind = UNWIND_CFA_KEPT;
		ret->fp = r->fp.kind == REG_SAME ? (int16_t)r->fp.off : 0;
		return r->cfa_reg == BEAM_PROCESS_REGISTER && fits_s16(r->fp.off) &&
		       pack_pair(r->cfa_off, r->cfa_add, &ret->cfa);
	case CFA_ALIGNED:
		ret->kind = UNWIND_CFA_KEPT;
		return r->cfa_reg == arch->sp && pack_pair(r->cfa_off, 0, &ret->cfa);
	case CFA_UNSUPPORTED:
		break;
	}
	return false;
}

/*
 * In the epilogue of a function that aligns its stack, GCC describes the frame pointer as saved until the
 * return, although it is restored already. When the CFA is sp + 8, only the return address is left of the
 * frame, so the frame pointer is the caller's.
 */
static bool is_restored(const struct elf_rule *r, const struct elf_arch *arch)
{
	return arch->ra_on_stack && r->cfa_kind == CFA_REG_OFF && r->cfa_reg == arch->sp && r->cfa_off == 8 &&
	       r->fp.kind == REG_DEREF_REG && r->fp.reg == arch->fp;
}

static bool pack_fp(const struct elf_rule *r, const struct elf_arch *arch, struct unwind_rule *ret)
{
	int32_t words = r->fp.off / 8;

	if (is_restored(r, arch))
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
		if (r->fp.reg != arch->fp)
			return false;
		ret->kind |= UNWIND_FP_FP << UNWIND_FP_SHIFT;
		break;
	default:
		return false;
	}
	ret->fp = (int16_t)words;
	return r->fp.off % 8 == 0 && fits_s16(words);
}

/* Whether a rule does not need its offset of the frame pointer. */
static bool is_fp_free(uint8_t kind)
{
	const uint8_t fp = (kind & UNWIND_FP_MASK) >> UNWIND_FP_SHIFT;

	return fp != UNWIND_FP_CFA && fp != UNWIND_FP_FP;
}

/* Packs the place of a return address in memory, as arch_ra_offset() of bpf/arch_*.h decodes it. */
static bool pack_ra_place(const struct elf_rule *r, const struct elf_arch *arch, struct unwind_rule *ret)
{
	bool from_fp = !arch->ra_on_stack && (ret->kind & UNWIND_FP_MASK) == UNWIND_FP_CFA << UNWIND_FP_SHIFT;
	int32_t usual = from_fp ? 1 : -1, place = r->ra.off / 8 - (from_fp ? ret->fp : 0);

	if (r->ra.off % 8)
		return false;
	if (!arch->ra_on_stack && (place < INT8_MIN || place > INT8_MAX) && is_fp_free(ret->kind) &&
	    fits_s16(place)) {
		ret->fp = (int16_t)place;
		place = 0;
	}
	if ((ret->kind & UNWIND_CFA_MASK) == UNWIND_CFA_REG) /* the byte is that register */
		return place == usual;
	ret->ra = (int8_t)place;
	return arch->ra_on_stack ? place == usual : place >= INT8_MIN && place <= INT8_MAX;
}

static bool pack_ra(const struct elf_rule *r, const struct elf_arch *arch, struct unwind_rule *ret)
{
	bool unchanged = r->ra.kind == REG_SAME && !arch->ra_on_stack;
	uint8_t reg = unchanged ? arch->ra : r->ra.reg;

	if (r->ra.kind == REG_CFA_OFF)
		return pack_ra_place(r, arch, ret);
	if ((r->ra.kind != REG_REGISTER && !unchanged) || reg >= RULE_REGISTERS ||
	    (ret->kind & UNWIND_CFA_MASK) == UNWIND_CFA_REG) /* one register a rule */
		return false;
	ret->kind |= UNWIND_RA_REG;
	ret->reg = reg;
	return true;
}

_Static_assert((int)NO_RULE_PENDING == (int)UNWIND_NONE_PENDING &&
		       (int)NO_RULE_REFUSED == (int)UNWIND_NONE_REFUSED,
	       "what is not known");

/* Gives a rule its checked form, where there is one. `low`: UNWIND_CHECKED_*. */
static void check(struct unwind_rule *r, uint8_t low)
{
	const uint8_t cfa = r->kind & UNWIND_CFA_MASK;

	if ((cfa != UNWIND_CFA_SP && cfa != UNWIND_CFA_FP) || r->cfa & UNWIND_CHECKED_MASK)
		return;
	r->kind = (uint8_t)((r->kind & ~UNWIND_CFA_MASK) |
			    (cfa == UNWIND_CFA_SP ? UNWIND_CFA_SP_CHECKED : UNWIND_CFA_FP_CHECKED));
	r->cfa |= low;
}

struct unwind_rule unwind_rule_pack(const struct elf_rule *rule, uint16_t machine)
{
	const struct elf_arch *arch = elf_arch(machine);
	struct unwind_rule ret = {0};
	bool ok = arch && pack_cfa(rule, arch, &ret);

	if (ok && ret.kind <= UNWIND_CFA_DEREF_INDEX && ret.kind != UNWIND_CFA_SIGNAL &&
	    ret.kind != UNWIND_CFA_ROOT && ret.kind != UNWIND_CFA_NONE)
		ok = pack_fp(rule, arch, &ret) && pack_ra(rule, arch, &ret);
	if (ok && rule->cfa_kind == CFA_KEPT)
		ok = pack_fp(rule, arch, &ret);
	if (ok && rule->flags & RULE_INTERRUPTS)
		ret.kind |= UNWIND_RA_EXACT;
	if (ok && rule->flags & RULE_COMPILED)
		check(&ret, UNWIND_CHECKED_CODE | (rule->flags & RULE_CHECKED ? 0 : UNWIND_CHECKED_TRUSTED));
	else if (ok && rule->flags & RULE_CHECKED)
		check(&ret, 0);
	if (!ok)
		return (struct unwind_rule){.kind = UNWIND_CFA_UNSUPPORTED};
	return ret;
}
