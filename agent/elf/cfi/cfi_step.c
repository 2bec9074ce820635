// SPDX-License-Identifier: Apache-2.0
/* What the call-frame instructions do to the rule. */
#include "agent/elf/cfi/cfi_run.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "agent/elf/cfi/dwarf_numbers.h"
#include "agent/elf/cfi/expr.h"

static void set_loc(struct cfi_run *run)
{
	struct cfi_bases bases = run->section->bases;
	uint64_t loc;

	bases.func = run->start;
	bases.has_func = run->initial != NULL;
	if (!entry_pointer(&run->c, run->cie->fde_encoding, &bases, &loc))
		cfi_fail(run, "pointer of set_loc cannot be read");
	else if (loc + run->section->delta < run->loc)
		cfi_fail(run, "set_loc goes backwards");
	else
		cfi_advance_to(run, loc + run->section->delta);
}

/* Where the rule of a register is kept, NULL for the many that are not followed. */
static inline struct elf_reg_rule *slot_of(struct cfi_run *run, struct cfi_state *state, uint64_t reg)
{
	if (reg < 64 && !(run->followed >> reg & 1))
		return NULL;
	if (reg == run->cie->ra_reg)
		return &state->rule.ra;
	if (reg == run->fp)
		return &state->rule.fp;
	if (reg == run->sp)
		return &state->sp;
	return NULL;
}

static void set_rule(struct cfi_run *run, uint64_t reg, struct elf_reg_rule rule)
{
	struct elf_reg_rule *slot = slot_of(run, &run->state, reg);

	if (slot) {
		*slot = rule;
		cfi_touch(run);
	}
}

static inline int32_t to_offset(struct cfi_run *run, int64_t off)
{
	if (off < INT32_MIN || off > INT32_MAX) {
		cfi_fail(run, "an offset does not fit 32 bits");
		return 0;
	}
	return (int32_t)off;
}

/* Offsets are in units of the CIE's data alignment factor. */
static int32_t factored(struct cfi_run *run, int64_t n)
{
	int64_t off;

	if (__builtin_mul_overflow(n, run->cie->data_align, &off))
		off = INT64_MAX;
	return to_offset(run, off);
}

static inline int64_t signed_uleb(struct cursor *c)
{
	uint64_t n = cursor_uleb(c);

	return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

static inline void rule_offset(struct cfi_run *run, uint64_t reg, int64_t n)
{
	struct elf_reg_rule *slot = slot_of(run, &run->state, reg);

	if (!slot)
		return;
	struct rule_family *family = run->state.family;
	*slot = (struct elf_reg_rule){.kind = REG_CFA_OFF, .off = factored(run, n)};
	cfi_touch(run);
	if (family && slot == &run->state.rule.fp)
		run->state.family = ruleset_family_saved(&run->out->rules, family, &run->state.rule);
}

static void rule_val_offset(struct cfi_run *run, uint64_t reg, int64_t n)
{
	/* the value CFA + 0 of the stack pointer is what it has without a rule */
	bool is_default = reg == run->sp && n == 0;

	set_rule(run, reg, (struct elf_reg_rule){.kind = is_default ? REG_SAME : REG_UNSUPPORTED});
}

static void rule_register(struct cfi_run *run, uint64_t reg, uint64_t from)
{
	struct elf_reg_rule rule = {.kind = REG_REGISTER, .reg = (uint8_t)from};

	if (from > UINT8_MAX)
		rule = (struct elf_reg_rule){.kind = REG_UNSUPPORTED};
	else if (from == reg)
		rule = (struct elf_reg_rule){.kind = REG_SAME};
	set_rule(run, reg, rule);
}

static void rule_restore(struct cfi_run *run, uint64_t reg)
{
	struct elf_reg_rule *slot = slot_of(run, &run->state, reg);

	if (!run->initial)
		cfi_fail(run, "the CIE restores a register");
	else if (slot) {
		/* the same member of the initial state */
		size_t offset = (size_t)((uint8_t *)slot - (uint8_t *)&run->state);

		memcpy(slot, (const uint8_t *)run->initial + offset, sizeof(*slot));
		cfi_touch(run);
	}
}

static void cfa_is_reg_off(struct cfi_run *run, uint64_t reg, int32_t off)
{
	if (reg > UINT8_MAX) {
		cfi_fail(run, "the CFA is relative to an unknown register");
		return;
	}
	run->state.cfa_reg = run->state.rule.cfa_reg = (uint8_t)reg;
	run->state.cfa_off = run->state.rule.cfa_off = off;
	run->state.rule.cfa_kind = CFA_REG_OFF;
	run->state.rule.cfa_add = 0;
	cfi_touch(run);
}

/* While the CFA is an expression, only the offset for a later def_cfa_register changes, as in GCC's unwinder.
 */
static inline void cfa_offset(struct cfi_run *run, int32_t off)
{
	run->state.cfa_off = off;
	if (run->state.rule.cfa_kind == CFA_REG_OFF) {
		run->state.rule.cfa_off = off;
		run->touched = true;
	}
}

static struct cursor take_block(struct cfi_run *run)
{
	uint64_t len = cursor_uleb(&run->c);
	const uint8_t *bytes = cursor_take(&run->c, len);

	return bytes ? cursor_of(bytes, len) : cursor_of("", 0);
}

static void remember_state(struct cfi_run *run)
{
	struct cfi_output *out = run->out;

	if (run->depth == CFI_STATES_MAX) {
		cfi_fail(run, "remember_state nests too deep");
		return;
	}
	if (run->depth == out->states_cap) {
		size_t cap = out->states_cap ? out->states_cap * 2 : 16;
		struct cfi_state *states = realloc(out->states, cap * sizeof(*states));

		if (!states) {
			cfi_set_fatal(run, -ENOMEM);
			return;
		}
		out->states = states;
		out->states_cap = cap;
	}
	out->states[run->depth++] = run->state;
}

static void restore_state(struct cfi_run *run)
{
	if (run->depth == 0) {
		cfi_fail(run, "restore_state without remember_state");
		return;
	}
	run->state = run->out->states[--run->depth];
	run->touched = true;
}

static void step_machine(struct cfi_run *run, uint8_t op)
{
	bool known = run->section->machine == EM_AARCH64 &&
		     (op == DW_CFA_GNU_window_save || op == DW_CFA_AARCH64_negate_ra_state_with_pc);

	/* whether the return address is signed is not followed: its signature is masked off in any case */
	if (!known)
		cfi_fail(run, "unknown call-frame instruction");
}

static void step_cfa(struct cfi_run *run, uint8_t op)
{
	struct cursor *c = &run->c;
	uint64_t reg;

	switch (op) {
	case DW_CFA_def_cfa:
		reg = cursor_uleb(c);
		cfa_is_reg_off(run, reg, to_offset(run, signed_uleb(c)));
		break;
	case DW_CFA_def_cfa_sf:
		reg = cursor_uleb(c);
		cfa_is_reg_off(run, reg, factored(run, cursor_sleb(c)));
		break;
	case DW_CFA_def_cfa_register:
		cfa_is_reg_off(run, cursor_uleb(c), run->state.cfa_off);
		break;
	case DW_CFA_def_cfa_offset_sf:
		cfa_offset(run, factored(run, cursor_sleb(c)));
		break;
	default: /* DW_CFA_def_cfa_expression */
		expr_cfa(run->section->machine, take_block(run), &run->state.rule);
		cfi_touch(run);
	}
}

static void step_register(struct cfi_run *run, uint8_t op)
{
	struct cursor *c = &run->c;
	uint64_t reg = cursor_uleb(c);

	switch (op) {
	case DW_CFA_offset_extended:
		rule_offset(run, reg, signed_uleb(c));
		break;
	case DW_CFA_offset_extended_sf:
		rule_offset(run, reg, cursor_sleb(c));
		break;
	case DW_CFA_GNU_negative_offset_extended:
		rule_offset(run, reg, -signed_uleb(c));
		break;
	case DW_CFA_val_offset:
		rule_val_offset(run, reg, signed_uleb(c));
		break;
	case DW_CFA_val_offset_sf:
		rule_val_offset(run, reg, cursor_sleb(c));
		break;
	case DW_CFA_restore_extended:
		rule_restore(run, reg);
		break;
	case DW_CFA_undefined:
		set_rule(run, reg, (struct elf_reg_rule){.kind = REG_UNDEFINED});
		break;
	case DW_CFA_same_value:
		set_rule(run, reg, (struct elf_reg_rule){.kind = REG_SAME});
		break;
	case DW_CFA_register:
		rule_register(run, reg, cursor_uleb(c));
		break;
	case DW_CFA_expression:
		set_rule(run, reg, expr_saved_at(take_block(run)));
		break;
	default: /* DW_CFA_val_expression */
		set_rule(run, reg, expr_value(take_block(run)));
	}
}

/* The instructions that have their number in the low six bits. */
static void step_low(struct cfi_run *run, uint8_t op)
{
	struct cursor *c = &run->c;

	switch (op) {
	case DW_CFA_nop:
		break;
	case DW_CFA_set_loc:
		set_loc(run);
		break;
	case DW_CFA_advance_loc1:
		cfi_advance_by(run, cursor_u8(c));
		break;
	case DW_CFA_advance_loc2:
		cfi_advance_by(run, cursor_u16(c));
		break;
	case DW_CFA_advance_loc4:
		cfi_advance_by(run, cursor_u32(c));
		break;
	case DW_CFA_MIPS_advance_loc8:
		cfi_advance_by(run, cursor_u64(c));
		break;
	case DW_CFA_remember_state:
		remember_state(run);
		break;
	case DW_CFA_restore_state:
		restore_state(run);
		break;
	case DW_CFA_def_cfa ... DW_CFA_def_cfa_expression:
	case DW_CFA_def_cfa_sf:
	case DW_CFA_def_cfa_offset_sf:
		step_cfa(run, op);
		break;
	case DW_CFA_offset_extended ... DW_CFA_register:
	case DW_CFA_expression:
	case DW_CFA_offset_extended_sf:
	case DW_CFA_val_offset ... DW_CFA_val_expression:
	case DW_CFA_GNU_negative_offset_extended:
		step_register(run, op);
		break;
	case DW_CFA_GNU_args_size:
		cursor_uleb(c);
		break;
	default:
		step_machine(run, op);
	}
}

void cfi_step(struct cfi_run *run, uint8_t op)
{
	uint8_t low = op & 0x3f;

	switch (op & 0xc0) {
	case DW_CFA_advance_loc:
		cfi_advance_by(run, low);
		break;
	case DW_CFA_offset:
		rule_offset(run, low, signed_uleb(&run->c));
		break;
	case DW_CFA_restore:
		rule_restore(run, low);
		break;
	default:
		if (op == DW_CFA_def_cfa_offset) /* every second instruction of real programs */
			cfa_offset(run, to_offset(run, signed_uleb(&run->c)));
		else
			step_low(run, op);
	}
}
