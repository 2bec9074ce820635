// SPDX-License-Identifier: Apache-2.0
/*
 * Most instructions of real programs are about registers that are not followed, or come several to an
 * address. So a row is written only when the location advances and the state was touched since the last row,
 * and a rule is looked up only then; mostly nothing but the CFA's offset has changed, and a rule family knows
 * the answer.
 *
 * Nine tenths of all instructions describe a push or a pop: the location advances, the CFA's offset is set,
 * and perhaps a register that is not followed is saved. run_usual takes those without a call, a hash, or a
 * store that the next one waits for.
 */
#include "agent/elf/cfi/cfi.h"

#include <elf.h>

#include "agent/elf/cfi/cfi_run.h"
#include "agent/elf/cfi/dwarf_numbers.h"
#include "agent/elf/cfi/row_rule.h"

#define USUAL_SLACK 2 /* bytes */

/* A rule that is what its state says, without the decisions of finish.c. */
static inline bool is_usual(const struct cfi_run *run)
{
	return !run->cie->signal && run->state.rule.ra.kind == REG_CFA_OFF && run->state.sp.kind == REG_SAME;
}

static struct rule_family *family_of(const struct cfi_run *run)
{
	return is_usual(run) ? ruleset_family(&run->out->rules, &run->state.rule) : NULL;
}

/* Apart, so that the usual row needs no stack frame. The rule's index, or -ENOMEM. */
static __attribute__((noinline)) int64_t look_up_rule(struct cfi_run *run)
{
	struct cfi_state *state = &run->state;
	struct elf_rule rule;

	if (!is_usual(run)) {
		cfi_finish_rule(run->section->machine, run->cie->signal, state, &rule);
		return ruleset_intern(&run->out->rules, &rule);
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

static void write_row(struct cfi_run *run)
{
	const uint32_t *known = rule_family_slot(run->state.family, run->state.rule.cfa_off);
	struct cfi_output *out = run->out;

	int64_t index = known && *known ? *known : look_up_rule(run);
	if (index < 0) {
		cfi_set_fatal(run, (int)index);
		return;
	}
	if (out->n_rows == out->rows_cap) {
		int r = cfi_output_grow(out);
		if (r < 0) {
			cfi_set_fatal(run, r);
			return;
		}
	}
	out->rows[out->n_rows] =
		(struct cfi_row){.off = (uint32_t)(run->loc - run->start), .rule = (uint32_t)index};
	out->n_rows += index != run->last_rule;
	run->last_rule = (uint32_t)index;
	run->touched = false;
}

void cfi_advance_to(struct cfi_run *run, uint64_t loc)
{
	if (!run->initial) {
		cfi_fail(run, "the CIE advances the location");
		return;
	}
	if (run->touched && loc > run->loc)
		write_row(run);
	run->loc = loc;
	if (loc >= run->end)
		run->c.pos = run->c.end; /* what follows describes no address of this FDE */
}

void cfi_advance_by(struct cfi_run *run, uint64_t delta)
{
	uint64_t bytes, loc;

	if (__builtin_mul_overflow(delta, run->cie->code_align, &bytes) ||
	    __builtin_add_overflow(run->loc, bytes, &loc))
		cfi_fail(run, "the location wraps around");
	else
		cfi_advance_to(run, loc);
}

/*
 * The bytes of an instruction that saves a register which is not followed, if its number has one byte: by
 * opcode, for CIEs with the usual column of the return address.
 */
static const uint8_t ignored_x86[256] = {[0x80 ... 0x85] = 2, [0x88 ... 0x8f] = 2, [0x91 ... 0xbf] = 2};
static const uint8_t ignored_arm64[256] = {[0x80 ... 0x9c] = 2, [0xa0 ... 0xbf] = 2};

static inline bool is_small(uint8_t leb)
{
	return leb < 0x80;
}

/* What changes all the time, in registers of the processor; `off` stands for the state's two cfa_off. */
struct usual {
	const uint8_t *pos;
	struct rule_family *family;
	struct cfi_row *row; /* the next */
	uint64_t loc;	     /* relative to the start */
	uint32_t off, last_rule;
};

/* False, and nothing done: the rule is not known yet, or this writes no row or the last. */
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

/* The frame pointer is saved at CFA + `off`. False, and nothing done: it is not known what comes of that. */
static inline __attribute__((always_inline)) bool usual_save_fp(struct usual *u, struct cfi_run *run,
								int32_t off)
{
	struct rule_family *saved = *rule_family_saved(u->family, off);

	if (!saved || saved->rule.fp.off != off)
		return false;
	run->state.rule.fp = saved->rule.fp;
	u->family = run->state.family = saved;
	return true;
}

static inline __attribute__((always_inline)) void usual_leave(const struct usual *u, struct cfi_run *run)
{
	run->c.pos = u->pos;
	run->loc = run->start + u->loc;
	run->last_rule = u->last_rule;
	run->state.rule.cfa_off = run->state.cfa_off = (int32_t)u->off;
	run->touched = true;
	run->out->n_rows = (size_t)(u->row - run->out->rows);
}

/*
 * Carries out what the program goes on with as long as it is usual. What needs more than a known rule and the
 * memory that is there, or writes the last row, is left for others: the run is then as if the instructions
 * had been carried out one by one. Looks at, but does not heed, USUAL_SLACK bytes behind the program.
 */
static void run_usual(struct cfi_run *run, const uint8_t ignored[256])
{
	const uint8_t *end = run->c.end, *tail = end - 1; /* behind tail, no instruction has an operand */
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

/* NULL: run_usual cannot be used. */
static const uint8_t *ignored_registers(const struct cfi_run *run)
{
	const struct cfi_section *s = run->section;

	if (s->bytes + s->len - run->c.end < USUAL_SLACK || !run->cie->usual)
		return NULL;
	return s->machine == EM_X86_64 ? ignored_x86 : ignored_arm64;
}

/* Whatever goes wrong moves the cursor to the end. */
static void interpret(struct cfi_run *run)
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
			cfi_step(run, *run->c.pos++);
	}
	if (run->c.bad) /* the cause of any other error */
		run->error = "call-frame instructions are truncated";
}

/* Everything but `initial` and `state`, which a CIE and an FDE set differently. */
static inline void run_init(struct cfi_run *run, struct cfi_output *out, const struct cfi_section *s,
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
	run->last_rule = CFI_NO_ROW;
	run->error = NULL;
	run->fatal = 0;
}

const char *cfi_run_cie(struct cfi_output *out, const struct cfi_section *s, const struct cfi_cie *cie,
			struct cfi_state *ret, int *ret_fatal)
{
	struct cfi_run run;

	run_init(&run, out, s, cie, cie->program);
	run.initial = NULL;
	run.state = (struct cfi_state){
		.rule = {.cfa_kind = CFA_UNSUPPORTED}}; /* until an instruction defines it */
	interpret(&run);
	run.state.family = family_of(&run);
	*ret = run.state;
	*ret_fatal = run.fatal;
	return run.error;
}

const char *cfi_run_fde(struct cfi_output *out, const struct cfi_section *s, const struct cfi_cie *cie,
			const struct cfi_state *initial, const struct cfi_fde *fde, int *ret_fatal)
{
	size_t n_rows = out->n_rows;
	struct cfi_run run;

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
