// SPDX-License-Identifier: Apache-2.0
/*
 * Most instructions of real programs concern registers that are not followed, or several apply to one
 * address. So a row is written only when the location advances and the state has changed since the last row,
 * and only then its rule is looked up. Usually nothing but the offset of the CFA has changed; then the rule
 * family (ruleset.h) has the index of the rule.
 *
 * Nine tenths of all instructions describe a push or a pop: the location advances, the offset of the CFA is
 * set, and perhaps a register is saved that is not followed. run_usual runs these without a function call, a
 * hash computation, or a store on which the next instruction depends.
 */
#include "agent/elf/cfi/interpreter.h"

#include <elf.h>

#include "agent/base/array.h"
#include "agent/elf/cfi/dwarf_numbers.h"
#include "agent/elf/cfi/expr.h"
#include "agent/elf/cfi/row_rule.h"

#define USUAL_SLACK 2 /* bytes */

struct run {
	struct cfi_output *out;
	const struct cfi_section *section;
	const struct cfi_cie *cie;
	const struct cfi_state *initial; /* NULL while the CIE itself is run */
	struct cursor c;
	struct cfi_state state;
	size_t depth;	     /* of the stack out->states */
	size_t first;	     /* row of the FDE */
	uint64_t start, loc; /* addresses */
	uint64_t end;
	uint8_t fp, sp;
	/* Bit n: register n is the frame pointer, the stack pointer or the return address. */
	uint64_t followed;
	bool touched;	    /* the state has changed since the last row */
	uint32_t last_rule; /* of the last row; CFI_NO_ROW before the first */
	const char *error;  /* the first one */
	bool failed;	    /* the rules at `loc` and behind it are not known */
	int fatal;
};

#define CFI_NO_ROW UINT32_MAX

/* Reports what no row can express. The instructions that follow are run: some rows may still be good. */
static inline void report(struct run *run, const char *error)
{
	if (!run->error)
		run->error = error;
}

/*
 * Report an error after which nothing is known, or one that ends the section. Both move the cursor to the
 * end.
 */
static inline void fail(struct run *run, const char *error)
{
	report(run, error);
	run->failed = true;
	run->c.pos = run->c.end;
}

static inline void set_fatal(struct run *run, int error)
{
	run->fatal = error;
	run->c.pos = run->c.end;
}

/* Called after any change of the rule except to the offset of a CFA that is register + offset. */
static inline void touch(struct run *run)
{
	run->state.family = NULL;
	run->touched = true;
}

/* The state is the rule of the row: row_rule_finish (row_rule.h) would not change it. */
static inline bool is_usual(const struct run *run)
{
	const struct cfi_state *s = &run->state;

	return !run->cie->signal && s->rule.ra.kind == REG_CFA_OFF && s->sp.kind == REG_SAME &&
	       !s->cfa_is_expr;
}

static struct rule_family *family_of(const struct run *run)
{
	return is_usual(run) ? ruleset_family(&run->out->rules, &run->state.rule) : NULL;
}

/*
 * A separate function, so that the fast path needs no stack frame. Returns the index of the rule, or -ENOMEM.
 */
static __attribute__((noinline)) int64_t look_up_rule(struct run *run)
{
	struct cfi_state *state = &run->state;
	struct elf_rule rule;

	if (!is_usual(run)) {
		row_rule_finish(run->section->arch, run->cie->signal, &state->rule, state->sp, &rule);
		int64_t index = ruleset_intern(&run->out->rules, &rule);
		if (index > 0 && state->sp.kind == REG_REGISTER && state->sp.reg == run->sp &&
		    state->sp.off > 0)
			run->out->stg_run = (uint32_t)index;
		return index;
	}
	if (!state->family)
		state->family = family_of(run);
	uint32_t *known = rule_family_slot(state->family, state->rule.cfa_off);
	if (known && *known)
		return *known;
	int64_t index = ruleset_intern(&run->out->rules, &state->rule);
	if (known && index > 0)
		*known = (uint32_t)index;
	return index;
}

static void write_row(struct run *run)
{
	const uint32_t *known = rule_family_slot(run->state.family, run->state.rule.cfa_off);
	struct cfi_output *out = run->out;

	int64_t index = known && *known ? *known : look_up_rule(run);
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
	out->rows[out->n_rows] =
		(struct cfi_row){.off = (uint32_t)(run->loc - run->start), .rule = (uint32_t)index};
	out->n_rows += index != run->last_rule;
	run->last_rule = (uint32_t)index;
	run->touched = false;
}

static void advance_to(struct run *run, uint64_t loc)
{
	if (!run->initial) {
		fail(run, "the CIE advances the location");
		return;
	}
	if (run->touched && loc > run->loc)
		write_row(run);
	run->loc = loc;
	if (loc >= run->end)
		run->c.pos =
			run->c.end; /* the instructions that follow concern addresses outside of this FDE */
}

static void advance_by(struct run *run, uint64_t delta)
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
	else if (loc + run->section->delta < run->loc)
		fail(run, "set_loc goes backwards");
	else
		advance_to(run, loc + run->section->delta);
}

/* The rule of a register in the state; NULL for registers that are not followed. */
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
		touch(run);
	}
}

/* False for an offset that rules cannot have. */
static inline bool check_offset(struct run *run, int64_t off)
{
	bool fits = off >= INT32_MIN && off <= INT32_MAX;

	if (!fits)
		report(run, "an offset does not fit 32 bits");
	return fits;
}

/* Offsets are multiples of the data alignment factor of the CIE. INT64_MAX if the product overflows. */
static int64_t factored(const struct run *run, int64_t n)
{
	int64_t off;

	return __builtin_mul_overflow(n, run->cie->data_align, &off) ? INT64_MAX : off;
}

/* INT64_MAX, which no rule can have either, for what exceeds 63 bits. */
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
	struct rule_family *family = run->state.family;
	int64_t off = factored(run, n);
	bool fits = check_offset(run, off);
	*slot = (struct elf_reg_rule){.kind = fits ? REG_CFA_OFF : REG_UNSUPPORTED,
				      .off = fits ? (int32_t)off : 0};
	touch(run);
	if (family && slot == &run->state.rule.fp)
		run->state.family = ruleset_family_saved(&run->out->rules, family, &run->state.rule);
}

static void rule_val_offset(struct run *run, uint64_t reg, int64_t n)
{
	/* for the stack pointer, the value CFA + 0 is the default */
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

static void rule_val_expression(struct run *run, uint64_t reg, struct elf_reg_rule rule)
{
	if (rule.kind == REG_REGISTER && rule.off != 0 && reg != run->sp)
		rule = (struct elf_reg_rule){.kind = REG_UNSUPPORTED};
	set_rule(run, reg, rule);
}

static void rule_restore(struct run *run, uint64_t reg)
{
	struct elf_reg_rule *slot = slot_of(run, &run->state, reg);

	if (!run->initial)
		fail(run, "the CIE restores a register");
	else if (slot) {
		/* the same member in the initial state */
		size_t offset = (size_t)((uint8_t *)slot - (uint8_t *)&run->state);

		memcpy(slot, (const uint8_t *)run->initial + offset, sizeof(*slot));
		touch(run);
	}
}

/* Makes the CFA the register + offset of the state, or unsupported if one of them is unknown. */
static void cfa_is_reg_off(struct run *run)
{
	struct cfi_state *state = &run->state;
	bool known = !state->cfa_reg_unknown && !state->cfa_off_unknown;

	state->cfa_is_expr = false;
	state->rule.cfa_kind = known ? CFA_REG_OFF : CFA_UNSUPPORTED;
	state->rule.cfa_reg = known ? state->cfa_reg : 0;
	state->rule.cfa_off = known ? state->cfa_off : 0;
	state->rule.cfa_add = 0;
	touch(run);
}

static void set_cfa_reg(struct run *run, uint64_t reg)
{
	run->state.cfa_reg_unknown = reg > UINT8_MAX;
	run->state.cfa_reg = (uint8_t)reg;
	if (reg > UINT8_MAX)
		report(run, "the CFA is relative to an unknown register");
}

static inline void set_cfa_off(struct run *run, int64_t off)
{
	run->state.cfa_off_unknown = !check_offset(run, off);
	run->state.cfa_off = (int32_t)off;
}

/*
 * While the CFA is an expression, this changes only the offset for a later def_cfa_register, as in GCC's
 * unwinder.
 */
static inline void cfa_offset(struct run *run, int64_t off)
{
	struct cfi_state *state = &run->state;

	set_cfa_off(run, off);
	if (state->cfa_is_expr)
		return;
	if (state->rule.cfa_kind != CFA_REG_OFF || state->cfa_off_unknown) {
		cfa_is_reg_off(run);
		return;
	}
	state->rule.cfa_off = state->cfa_off;
	run->touched = true;
}

/* The rule of the row that ends here becomes unsupported. */
static void reject_row_before(struct run *run)
{
	struct cfi_output *out = run->out;

	if (out->n_rows == run->first)
		return;
	struct elf_rule rule = out->rules.rules[out->rows[out->n_rows - 1].rule];
	if (rule.cfa_kind != CFA_REG_OFF)
		return;
	rule.cfa_kind = CFA_UNSUPPORTED;
	rule.cfa_reg = 0;
	rule.cfa_off = 0;
	int64_t index = ruleset_intern(&out->rules, &rule);
	if (index < 0)
		set_fatal(run, (int)index);
	else
		run->last_rule = out->rows[out->n_rows - 1].rule = (uint32_t)index;
}

/*
 * Assemblers sum up the adjustments of the offset. If the sum falls below zero, they write it as an unsigned
 * number of 64 bits, and an adjustment was missed before: the code behind a return, for example, has the
 * frame that the code before the epilogue had, but the directive to restore it was forgotten. So the row
 * before is wrong, too.
 */
static void def_cfa_offset(struct run *run)
{
	uint64_t off = cursor_uleb(&run->c);

	if (off > INT64_MAX) {
		reject_row_before(run);
		off = INT64_MAX;
	}
	if (run->fatal == 0)
		cfa_offset(run, (int64_t)off);
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
	int r = array_reserve(&out->states, &out->states_cap, run->depth + 1, sizeof(*out->states));
	if (r < 0) {
		set_fatal(run, r);
		return;
	}
	out->states[run->depth++] = run->state;
}

/* Every register is unknown, until an instruction gives its rule. */
static void forget_state(struct run *run)
{
	const struct elf_reg_rule unknown = {.kind = REG_UNSUPPORTED};

	run->state = (struct cfi_state){
		.rule = {.fp = unknown, .ra = unknown},
		.sp = unknown,
		.cfa_reg_unknown = true,
		.cfa_off_unknown = true,
	};
	cfa_is_reg_off(run);
}

static void restore_state(struct run *run)
{
	if (run->depth == 0) {
		report(run, "restore_state without remember_state");
		forget_state(run);
		return;
	}
	run->state = run->out->states[--run->depth];
	run->touched = true;
}

static void step_machine(struct run *run, uint8_t op)
{
	bool known = run->section->arch->machine == EM_AARCH64 &&
		     (op == DW_CFA_GNU_window_save || op == DW_CFA_AARCH64_negate_ra_state_with_pc);

	/* whether the return address is signed is ignored: the signature is masked off in any case */
	if (!known)
		fail(run, "unknown call-frame instruction");
}

static void step_cfa(struct run *run, uint8_t op)
{
	struct cursor *c = &run->c;

	switch (op) {
	case DW_CFA_def_cfa:
		set_cfa_reg(run, cursor_uleb(c));
		set_cfa_off(run, signed_uleb(c));
		cfa_is_reg_off(run);
		break;
	case DW_CFA_def_cfa_sf:
		set_cfa_reg(run, cursor_uleb(c));
		set_cfa_off(run, factored(run, cursor_sleb(c)));
		cfa_is_reg_off(run);
		break;
	case DW_CFA_def_cfa_register:
		set_cfa_reg(run, cursor_uleb(c));
		cfa_is_reg_off(run);
		break;
	case DW_CFA_def_cfa_offset_sf:
		cfa_offset(run, factored(run, cursor_sleb(c)));
		break;
	default: /* DW_CFA_def_cfa_expression */
		expr_cfa(run->section->arch->machine, take_block(run), &run->state.rule);
		run->state.cfa_is_expr = true;
		touch(run);
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
		rule_val_expression(run, reg, expr_value(take_block(run)));
	}
}

/* Runs an instruction whose opcode is in the low six bits. */
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

static __attribute__((noinline)) void step(struct run *run, uint8_t op)
{
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
		if (op == DW_CFA_def_cfa_offset) /* every second instruction of real programs is this one */
			def_cfa_offset(run);
		else
			step_low(run, op);
	}
}

/*
 * By opcode, the length of an instruction that saves a register which is not followed and whose number has
 * one byte. For CIEs with the usual column of the return address.
 */
static const uint8_t ignored_x86[256] = {[0x80 ... 0x85] = 2, [0x88 ... 0x8f] = 2, [0x91 ... 0xbf] = 2};
static const uint8_t ignored_arm64[256] = {[0x80 ... 0x9c] = 2, [0xa0 ... 0xbf] = 2};

static inline bool is_small(uint8_t leb)
{
	return leb < 0x80;
}

/*
 * The part of the state that changes with nearly each instruction, in processor registers. `off` stands for
 * both cfa_off of the state.
 */
struct usual {
	const uint8_t *pos;
	struct rule_family *family;
	struct cfi_row *row; /* the next row to write */
	uint64_t loc;	     /* relative to the start */
	uint32_t off, last_rule;
};

/*
 * Advances the location and writes the row before it. False, with nothing changed: the rule was not looked up
 * before, the location stays the same, or the FDE ends at the new location.
 */
static inline __attribute__((always_inline)) bool usual_advance(struct usual *u, uint64_t delta,
								uint64_t limit)
{
	const uint32_t *known = rule_family_slot(u->family, (int32_t)u->off);

	if (!known || !*known || delta == 0 || u->loc + delta >= limit)
		return false;
	*u->row = (struct cfi_row){.off = (uint32_t)u->loc, .rule = *known};
	u->row += *known != u->last_rule;
	u->last_rule = *known;
	u->loc += delta;
	return true;
}

/*
 * The frame pointer is saved at CFA + `off`. False, with nothing changed: the resulting rule was not looked
 * up before.
 */
static inline __attribute__((always_inline)) bool usual_save_fp(struct usual *u, struct run *run, int32_t off)
{
	struct rule_family *saved = *rule_family_saved(u->family, off);

	if (!saved || saved->rule.fp.off != off)
		return false;
	run->state.rule.fp = saved->rule.fp;
	u->family = run->state.family = saved;
	return true;
}

static inline __attribute__((always_inline)) void usual_leave(const struct usual *u, struct run *run)
{
	run->c.pos = u->pos;
	run->loc = run->start + u->loc;
	run->last_rule = u->last_rule;
	run->state.rule.cfa_off = run->state.cfa_off = (int32_t)u->off;
	run->touched = true;
	run->out->n_rows = (size_t)(u->row - run->out->rows);
}

/*
 * Runs instructions as long as they are usual ones. It stops at an instruction that needs a new rule or more
 * memory, or that writes the last row; the state is then as if the instructions had been run one by one. May
 * load, but does not use, USUAL_SLACK bytes behind the program.
 */
static void run_usual(struct run *run, const uint8_t ignored[256])
{
	const uint8_t *end = run->c.end,
		      *tail = end - 1; /* an instruction behind tail has no room for an operand */
	const uint64_t align = run->cie->code_align, limit = run->end - run->start;
	const uint8_t saves_fp = DW_CFA_offset | run->fp;
	const struct cfi_output *out = run->out;
	struct usual u = {
		.pos = run->c.pos,
		.family = run->state.family,
		.row = out->rows + out->n_rows,
		.loc = run->loc - run->start,
		.off = (uint32_t)run->state.rule.cfa_off,
		.last_rule = run->last_rule,
	};

	while (u.pos < end) {
		uint8_t op = *u.pos;

		if ((op & 0xc0) == DW_CFA_advance_loc) {
			if (!usual_advance(&u, (op & 0x3f) * align, limit))
				break;
			op = *++u.pos;
		}
		if (op == DW_CFA_def_cfa_offset && u.pos < tail && is_small(u.pos[1])) {
			u.off = u.pos[1];
			u.pos += 2;
			if (ignored[*u.pos] && is_small(u.pos[1]) && u.pos < tail)
				u.pos += 2;
			continue;
		}
		if (u.pos >= tail)
			break;
		if (op == DW_CFA_remember_state && run->depth < out->states_cap) {
			run->state.rule.cfa_off = run->state.cfa_off = (int32_t)u.off;
			out->states[run->depth++] = run->state;
			u.pos++;
		} else if (op == DW_CFA_restore_state && run->depth > 0 &&
			   out->states[run->depth - 1].family) {
			run->state = out->states[--run->depth];
			u.family = run->state.family;
			u.off = (uint32_t)run->state.rule.cfa_off;
			u.pos++;
		} else if (op == DW_CFA_advance_loc1 && usual_advance(&u, u.pos[1] * align, limit)) {
			u.pos += 2;
		} else if (ignored[op] && is_small(u.pos[1])) {
			u.pos += 2;
		} else if (op == saves_fp && is_small(u.pos[1]) &&
			   usual_save_fp(&u, run, u.pos[1] * (int32_t)run->cie->data_align)) {
			u.pos += 2;
		} else if (op == DW_CFA_nop) {
			u.pos++;
		} else if ((op & 0xc0) != DW_CFA_advance_loc) {
			break;
		}
	}
	usual_leave(&u, run);
}

/* The table of instructions to ignore; NULL: run_usual cannot be used. */
static const uint8_t *ignored_registers(const struct run *run)
{
	const struct cfi_section *s = run->section;

	if (s->bytes + s->len - run->c.end < USUAL_SLACK || !run->cie->usual)
		return NULL;
	return s->arch->machine == EM_X86_64 ? ignored_x86 : ignored_arm64;
}

static void interpret(struct run *run)
{
	const uint8_t *ignored = ignored_registers(run);
	struct cfi_output *out = run->out;

	while (run->c.pos < run->c.end) {
		if (*run->c.pos == DW_CFA_nop) {
			run->c.pos++;
			continue;
		}
		if (run->state.family && ignored && out->rows_cap - out->n_rows > cursor_left(&run->c))
			run_usual(run, ignored);
		if (run->c.pos < run->c.end)
			step(run, *run->c.pos++);
	}
	if (run->c.bad) { /* this is the cause of any other error */
		run->error = "call-frame instructions are truncated";
		run->failed = true;
	}
}

/* Sets all fields but `initial` and `state`, which differ between a CIE and an FDE. */
static inline void run_init(struct run *run, struct cfi_output *out, const struct cfi_section *s,
			    const struct cfi_cie *cie, struct cursor program)
{
	run->out = out;
	run->section = s;
	run->cie = cie;
	run->c = program;
	run->depth = 0;
	run->first = out->n_rows;
	run->start = run->loc = run->end = 0;
	run->fp = s->arch->fp;
	run->sp = s->arch->sp;
	run->followed = 1ull << run->fp | 1ull << run->sp | (cie->ra_reg < 64 ? 1ull << cie->ra_reg : 0);
	run->touched = true;
	run->last_rule = CFI_NO_ROW;
	run->error = NULL;
	run->failed = false;
	run->fatal = 0;
}

void cfi_run_cie(struct cfi_output *out, const struct cfi_section *s, struct cfi_cie *cie,
		 struct cfi_state *ret, int *ret_fatal)
{
	struct run run;

	run_init(&run, out, s, cie, cie->program);
	run.initial = NULL;
	run.state = (struct cfi_state){
		.rule = {.cfa_kind = CFA_UNSUPPORTED}, /* until an instruction defines the CFA */
		.cfa_reg_unknown = true,
	};
	interpret(&run);
	run.state.family = family_of(&run);
	*ret = run.state;
	*ret_fatal = run.fatal;
	if (run.failed)
		cie->error = run.error;
	else
		cie->fault = run.error;
}

static bool is_good(const struct elf_rule *rule)
{
	return rule->cfa_kind != CFA_UNSUPPORTED && rule->ra.kind != REG_UNSUPPORTED;
}

/* Ends the rows of an FDE with an error: they are kept if one of them can be used. */
static void keep_good_rows(struct run *run)
{
	struct cfi_output *out = run->out;

	if (run->failed && run->loc < run->end) {
		forget_state(run);
		write_row(run);
	}
	for (size_t i = run->first; i < out->n_rows; i++) {
		if (is_good(&out->rules.rules[out->rows[i].rule]))
			return;
	}
	out->n_rows = run->first;
}

const char *cfi_run_fde(struct cfi_output *out, const struct cfi_section *s, const struct cfi_cie *cie,
			const struct cfi_state *initial, const struct cfi_fde *fde, int *ret_fatal)
{
	struct run run;

	run_init(&run, out, s, cie, fde->program);
	run.initial = initial;
	run.state = *initial;
	run.start = run.loc = fde->start;
	run.end = fde->end;
	interpret(&run);
	if (!run.failed && run.fatal == 0 && run.touched && run.loc < run.end)
		write_row(&run);
	report(&run, cie->fault);
	if (run.error && run.fatal == 0)
		keep_good_rows(&run);
	*ret_fatal = run.fatal;
	return run.error;
}
