// SPDX-License-Identifier: Apache-2.0
/*
 * Most instructions of real programs are about registers that are not followed, or come several to an
 * address. So a row is written only when the location advances and the state was touched since the last row,
 * and a rule is looked up only then. Rows may still repeat their neighbour's rule; rows.c merges those.
 */
#include "agent/elf/cfi.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "agent/elf/dwarf.h"
#include "agent/elf/expr.h"
#include "agent/elf/finish.h"

struct run {
	struct cfi_output *out;
	const struct cfi_section *section;
	const struct cfi_cie *cie;
	const struct cfi_state *initial; /* NULL while the CIE itself runs */
	struct cursor c;
	struct cfi_state state;
	size_t depth;	     /* of out->states */
	uint64_t start, loc; /* addresses */
	uint64_t end;
	uint8_t fp, sp;
	uint64_t followed; /* bit n: register n is the frame pointer, the stack pointer or the return address
			    */
	bool touched;	   /* since the last row */
	const char *error;
	int fatal;
};

static void fail(struct run *run, const char *error)
{
	if (!run->error)
		run->error = error;
	run->c.pos = run->c.end;
}

static void set_fatal(struct run *run, int error)
{
	run->fatal = error;
	run->c.pos = run->c.end;
}

static inline __attribute__((always_inline)) void append_row(struct run *run, const struct elf_rule *rule)
{
	struct cfi_output *out = run->out;

	int64_t index = ruleset_intern(&out->rules, rule);
	if (index < 0) {
		set_fatal(run, (int)index);
		return;
	}
	if (out->n_rows == out->rows_cap) {
		int r = cfi_output_grow(out);
		if (r < 0) {
			set_fatal(run, r);
			return;
		}
	}
	out->rows[out->n_rows++] =
		(struct cfi_row){.off = (uint32_t)(run->loc - run->start), .rule = (uint32_t)index};
	run->touched = false;
}

/* Apart, so that the usual row needs no stack frame. */
static __attribute__((noinline)) void finish_and_append_row(struct run *run)
{
	struct elf_rule rule;

	cfi_finish_rule(run->section->machine, run->cie->signal, &run->state, &rule);
	append_row(run, &rule);
}

static void write_row(struct run *run)
{
	if (run->cie->signal || run->state.rule.ra.kind != REG_CFA_OFF || run->state.sp.kind != REG_SAME)
		finish_and_append_row(run);
	else
		append_row(run, &run->state.rule);
}

static inline void advance_to(struct run *run, uint64_t loc)
{
	if (!run->initial) {
		fail(run, "the CIE advances the location");
		return;
	}
	if (run->touched && loc > run->loc)
		write_row(run);
	run->loc = loc;
	if (loc >= run->end)
		run->c.pos = run->c.end; /* what follows describes no address of this FDE */
}

static inline void advance_by(struct run *run, uint64_t delta)
{
	uint64_t bytes, loc;

	if (__builtin_mul_overflow(delta, run->cie->code_align, &bytes) ||
	    __builtin_add_overflow(run->loc, bytes, &loc))
		fail(run, "the location wraps around");
	else
		advance_to(run, loc);
}

static void set_loc(struct run *run)
{
	struct cfi_bases bases = run->section->bases;
	uint64_t loc;

	bases.func = run->start;
	bases.has_func = run->initial != NULL;
	if (!entry_pointer(&run->c, run->cie->fde_encoding, &bases, &loc))
		fail(run, "pointer of set_loc cannot be read");
	else if (loc < run->loc)
		fail(run, "set_loc goes backwards");
	else
		advance_to(run, loc);
}

/* Where the rule of a register is kept, NULL for the many that are not followed. */
static inline struct elf_reg_rule *slot_of(struct run *run, struct cfi_state *state, uint64_t reg)
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

static void set_rule(struct run *run, uint64_t reg, struct elf_reg_rule rule)
{
	struct elf_reg_rule *slot = slot_of(run, &run->state, reg);

	if (slot) {
		*slot = rule;
		run->touched = true;
	}
}

static inline int32_t to_offset(struct run *run, int64_t off)
{
	if (off < INT32_MIN || off > INT32_MAX) {
		fail(run, "an offset does not fit 32 bits");
		return 0;
	}
	return (int32_t)off;
}

/* Offsets are in units of the CIE's data alignment factor. */
static int32_t factored(struct run *run, int64_t n)
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

static inline void rule_offset(struct run *run, uint64_t reg, int64_t n)
{
	struct elf_reg_rule *slot = slot_of(run, &run->state, reg);

	if (!slot)
		return;
	*slot = (struct elf_reg_rule){.kind = REG_CFA_OFF, .off = factored(run, n)};
	run->touched = true;
}

static void rule_val_offset(struct run *run, uint64_t reg, int64_t n)
{
	/* the value CFA + 0 of the stack pointer is what it has without a rule */
	bool is_default = reg == run->sp && n == 0;

	set_rule(run, reg, (struct elf_reg_rule){.kind = is_default ? REG_SAME : REG_UNSUPPORTED});
}

static void rule_register(struct run *run, uint64_t reg, uint64_t from)
{
	struct elf_reg_rule rule = {.kind = REG_REGISTER, .reg = (uint8_t)from};

	if (from > UINT8_MAX)
		rule = (struct elf_reg_rule){.kind = REG_UNSUPPORTED};
	else if (from == reg)
		rule = (struct elf_reg_rule){.kind = REG_SAME};
	set_rule(run, reg, rule);
}

static void rule_restore(struct run *run, uint64_t reg)
{
	struct elf_reg_rule *slot = slot_of(run, &run->state, reg);

	if (!run->initial)
		fail(run, "the CIE restores a register");
	else if (slot) {
		/* the same member of the initial state */
		size_t offset = (size_t)((uint8_t *)slot - (uint8_t *)&run->state);

		memcpy(slot, (const uint8_t *)run->initial + offset, sizeof(*slot));
		run->touched = true;
	}
}

static void cfa_is_reg_off(struct run *run, uint64_t reg, int32_t off)
{
	if (reg > UINT8_MAX) {
		fail(run, "the CFA is relative to an unknown register");
		return;
	}
	run->state.cfa_reg = run->state.rule.cfa_reg = (uint8_t)reg;
	run->state.cfa_off = run->state.rule.cfa_off = off;
	run->state.rule.cfa_kind = CFA_REG_OFF;
	run->state.rule.cfa_add = 0;
	run->touched = true;
}

/* While the CFA is an expression, only the offset for a later def_cfa_register changes, as in GCC's unwinder.
 */
static inline void cfa_offset(struct run *run, int32_t off)
{
	run->state.cfa_off = off;
	if (run->state.rule.cfa_kind == CFA_REG_OFF) {
		run->state.rule.cfa_off = off;
		run->touched = true;
	}
}

static struct cursor take_block(struct run *run)
{
	uint64_t len = cursor_uleb(&run->c);
	const uint8_t *bytes = cursor_take(&run->c, len);

	return bytes ? cursor_of(bytes, len) : cursor_of("", 0);
}

static void remember_state(struct run *run)
{
	struct cfi_output *out = run->out;

	if (run->depth == CFI_STATES_MAX) {
		fail(run, "remember_state nests too deep");
		return;
	}
	if (run->depth == out->states_cap) {
		size_t cap = out->states_cap ? out->states_cap * 2 : 16;
		struct cfi_state *states = realloc(out->states, cap * sizeof(*states));

		if (!states) {
			set_fatal(run, -ENOMEM);
			return;
		}
		out->states = states;
		out->states_cap = cap;
	}
	out->states[run->depth++] = run->state;
}

static void restore_state(struct run *run)
{
	if (run->depth == 0) {
		fail(run, "restore_state without remember_state");
		return;
	}
	run->state = run->out->states[--run->depth];
	run->touched = true;
}

static void step_machine(struct run *run, uint8_t op)
{
	bool known = run->section->machine == EM_AARCH64 &&
		     (op == DW_CFA_GNU_window_save || op == DW_CFA_AARCH64_negate_ra_state_with_pc);

	/* whether the return address is signed is not followed: its signature is masked off in any case */
	if (!known)
		fail(run, "unknown call-frame instruction");
}

static void step_cfa(struct run *run, uint8_t op)
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
		run->touched = true;
	}
}

static void step_register(struct run *run, uint8_t op)
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
static void step_low(struct run *run, uint8_t op)
{
	struct cursor *c = &run->c;

	switch (op) {
	case DW_CFA_nop:
		break;
	case DW_CFA_set_loc:
		set_loc(run);
		break;
	case DW_CFA_advance_loc1:
		advance_by(run, cursor_u8(c));
		break;
	case DW_CFA_advance_loc2:
		advance_by(run, cursor_u16(c));
		break;
	case DW_CFA_advance_loc4:
		advance_by(run, cursor_u32(c));
		break;
	case DW_CFA_MIPS_advance_loc8:
		advance_by(run, cursor_u64(c));
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

/* Whatever goes wrong moves the cursor to the end. */
static void interpret(struct run *run)
{
	while (run->c.pos < run->c.end) {
		uint8_t op = *run->c.pos++;
		uint8_t low = op & 0x3f;

		switch (op & 0xc0) {
		case DW_CFA_advance_loc:
			advance_by(run, low);
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
	if (run->c.bad) /* the cause of any other error */
		run->error = "call-frame instructions are truncated";
}

/* Everything but `initial` and `state`, which a CIE and an FDE set differently. */
static inline void run_init(struct run *run, struct cfi_output *out, const struct cfi_section *s,
			    const struct cfi_cie *cie, struct cursor program)
{
	bool x86 = s->machine == EM_X86_64;

	run->out = out;
	run->section = s;
	run->cie = cie;
	run->c = program;
	run->depth = 0;
	run->start = run->loc = run->end = 0;
	run->fp = x86 ? X86_RBP : ARM64_X29;
	run->sp = x86 ? X86_RSP : ARM64_SP;
	run->followed = 1ull << run->fp | 1ull << run->sp | (cie->ra_reg < 64 ? 1ull << cie->ra_reg : 0);
	run->touched = true;
	run->error = NULL;
	run->fatal = 0;
}

const char *cfi_run_cie(struct cfi_output *out, const struct cfi_section *s, const struct cfi_cie *cie,
			struct cfi_state *ret, int *ret_fatal)
{
	struct run run;

	run_init(&run, out, s, cie, cie->program);
	run.initial = NULL;
	run.state = (struct cfi_state){
		.rule = {.cfa_kind = CFA_UNSUPPORTED}}; /* until an instruction defines it */
	interpret(&run);
	*ret = run.state;
	*ret_fatal = run.fatal;
	return run.error;
}

const char *cfi_run_fde(struct cfi_output *out, const struct cfi_section *s, const struct cfi_cie *cie,
			const struct cfi_state *initial, const struct cfi_fde *fde, int *ret_fatal)
{
	size_t n_rows = out->n_rows;
	struct run run;

	run_init(&run, out, s, cie, fde->program);
	run.initial = initial;
	run.state = *initial;
	run.start = run.loc = fde->start;
	run.end = fde->end;
	interpret(&run);
	if (!run.error && run.fatal == 0 && run.touched && run.loc < run.end)
		write_row(&run);
	if (run.error)
		out->n_rows = n_rows;
	*ret_fatal = run.fatal;
	return run.error;
}
