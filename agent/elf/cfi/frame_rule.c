// SPDX-License-Identifier: Apache-2.0
/*
 * This is a second interpreter of call-frame instructions beside interpreter.c, since the requirements are
 * opposite: that one writes rows for three registers and millions of addresses, this one finds the rules of
 * all registers for a few addresses. It stores each location as the instruction has it, expressions as their
 * place in the section, and copies the expressions at the end.
 */
#include "agent/elf/cfi/frame_rule.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/base/flat.h"
#include "agent/elf/cfi/cie_cache.h"
#include "agent/elf/cfi/dwarf_numbers.h"
#include "agent/elf/cfi/evaluate.h"

#define STATES_MAX 64 /* depth of DW_CFA_remember_state */
#define CFA_EXPRESSION UINT64_MAX
#define OFFSET_UNKNOWN INT64_MAX /* stands for an offset that does not fit */

#define _cleanup_cie_cache_ _cleanup_(cie_cache_fini)

static const struct frame_location unsupported = {.kind = LOCATION_UNSUPPORTED};

struct columns {
	struct frame_location cfa;
	/*
	 * Of the last CFA that was register + offset (see cfi_output.h). A register that does not exist makes
	 * the CFA unsupported; CFA_EXPRESSION: the CFA is an expression, or was not defined.
	 */
	uint64_t cfa_reg;
	int64_t cfa_off;
	struct frame_location regs[FRAME_REGISTERS];
};

struct interpreter {
	const struct cfi_section *section;
	const struct cfi_cie *cie;
	struct cursor c;
	uint64_t loc, end, target;
	bool in_cie, found, bad;
	uint64_t row; /* start of the current row */
	struct columns now, initial;
	unsigned depth;
	struct columns states[STATES_MAX];
};

static void fail(struct interpreter *m)
{
	m->bad = true;
	m->c.pos = m->c.end;
}

/* The next instruction shows that the row before it is wrong, as def_cfa_offset of interpreter.c explains. */
static bool offset_below_zero(struct cursor c)
{
	return cursor_left(&c) > 0 && cursor_u8(&c) == DW_CFA_def_cfa_offset && cursor_uleb(&c) > INT64_MAX &&
	       !c.bad;
}

/* The current row ends at `loc`. Stops if the wanted address is in it. */
static void advance_to(struct interpreter *m, uint64_t loc)
{
	if (m->in_cie || loc < m->loc) {
		fail(m);
		return;
	}
	if (m->target < loc || loc >= m->end) {
		if (loc < m->end && offset_below_zero(m->c))
			m->now.cfa = unsupported;
		m->found = true;
		m->end = loc < m->end ? loc : m->end;
		m->c.pos = m->c.end;
		return;
	}
	if (loc > m->loc)
		m->row = loc;
	m->loc = loc;
}

static void advance_by(struct interpreter *m, uint64_t delta)
{
	uint64_t bytes, loc;

	if (__builtin_mul_overflow(delta, m->cie->code_align, &bytes) ||
	    __builtin_add_overflow(m->loc, bytes, &loc))
		fail(m);
	else
		advance_to(m, loc);
}

static void set_loc(struct interpreter *m)
{
	struct cfi_bases bases = m->section->bases;
	uint64_t loc;

	if (entry_pointer(&m->c, m->cie->fde_encoding, &bases, &loc))
		advance_to(m, loc);
	else
		fail(m);
}

static void set(struct interpreter *m, uint64_t reg, struct frame_location location)
{
	if (reg < FRAME_REGISTERS)
		m->now.regs[reg] = location;
}

static void set_offset(struct interpreter *m, uint64_t reg, enum frame_location_kind kind, int64_t n)
{
	struct frame_location l = {.kind = (uint8_t)kind};

	if (__builtin_mul_overflow(n, m->cie->data_align, &l.off) || l.off == OFFSET_UNKNOWN)
		l = unsupported;
	set(m, reg, l);
}

/* OFFSET_UNKNOWN for a number that exceeds 63 bits (see interpreter.c). */
static int64_t signed_uleb(struct interpreter *m)
{
	uint64_t n = cursor_uleb(&m->c);

	return n > INT64_MAX ? OFFSET_UNKNOWN : (int64_t)n;
}

/* An expression is not copied yet: `off` is its place in the section until the rule is complete. */
static struct frame_location expression(struct interpreter *m, enum frame_location_kind kind)
{
	uint64_t len = cursor_uleb(&m->c);
	const uint8_t *bytes = cursor_take(&m->c, len);

	if (!bytes || len > UINT16_MAX)
		return unsupported;
	return (struct frame_location){
		.kind = (uint8_t)kind, .len = (uint16_t)len, .off = bytes - m->section->bytes};
}

static struct frame_location register_plus(uint64_t reg, int64_t off)
{
	if (reg >= FRAME_REGISTERS || off == OFFSET_UNKNOWN)
		return unsupported;
	return (struct frame_location){.kind = LOCATION_REGISTER, .reg = (uint8_t)reg, .off = off};
}

/* Factored offsets are multiples of the data alignment factor. */
static int64_t factored(const struct interpreter *m, int64_t n)
{
	int64_t off;

	return __builtin_mul_overflow(n, m->cie->data_align, &off) ? OFFSET_UNKNOWN : off;
}

static void restore(struct interpreter *m, uint64_t reg)
{
	if (m->in_cie)
		fail(m);
	else if (reg < FRAME_REGISTERS)
		m->now.regs[reg] = m->initial.regs[reg];
}

static void remember_state(struct interpreter *m)
{
	if (m->depth == STATES_MAX)
		fail(m);
	else
		m->states[m->depth++] = m->now;
}

static void restore_state(struct interpreter *m)
{
	if (m->depth > 0) {
		m->now = m->states[--m->depth];
		return;
	}
	/* nothing is known until an instruction gives the rule */
	m->now = (struct columns){.cfa = unsupported, .cfa_reg = CFA_EXPRESSION, .cfa_off = OFFSET_UNKNOWN};
	for (unsigned i = 0; i < FRAME_REGISTERS; i++)
		m->now.regs[i] = unsupported;
}

static void cfa_register(struct interpreter *m, uint64_t reg)
{
	m->now.cfa = register_plus(reg, m->now.cfa_off);
	m->now.cfa_reg = reg;
}

/* While the CFA is an expression, this changes only the offset for a later def_cfa_register. */
static void cfa_offset(struct interpreter *m, int64_t off)
{
	m->now.cfa_off = off;
	if (m->now.cfa_reg != CFA_EXPRESSION)
		m->now.cfa = register_plus(m->now.cfa_reg, off);
}

static void step_cfa(struct interpreter *m, uint8_t op)
{
	struct cursor *c = &m->c;
	uint64_t reg;

	switch (op) {
	case DW_CFA_def_cfa:
		reg = cursor_uleb(c);
		m->now.cfa_off = signed_uleb(m);
		return cfa_register(m, reg);
	case DW_CFA_def_cfa_sf:
		reg = cursor_uleb(c);
		m->now.cfa_off = factored(m, cursor_sleb(c));
		return cfa_register(m, reg);
	case DW_CFA_def_cfa_register:
		return cfa_register(m, cursor_uleb(c));
	case DW_CFA_def_cfa_offset:
		return cfa_offset(m, signed_uleb(m));
	case DW_CFA_def_cfa_offset_sf:
		return cfa_offset(m, factored(m, cursor_sleb(c)));
	default: /* DW_CFA_def_cfa_expression */
		m->now.cfa = expression(m, LOCATION_EXPR);
		m->now.cfa_reg = CFA_EXPRESSION;
	}
}

static void step_register(struct interpreter *m, uint8_t op)
{
	struct cursor *c = &m->c;
	uint64_t reg = cursor_uleb(c);

	switch (op) {
	case DW_CFA_offset_extended:
		return set_offset(m, reg, LOCATION_AT_CFA, signed_uleb(m));
	case DW_CFA_offset_extended_sf:
		return set_offset(m, reg, LOCATION_AT_CFA, cursor_sleb(c));
	case DW_CFA_GNU_negative_offset_extended:
		return set_offset(m, reg, LOCATION_AT_CFA, -signed_uleb(m));
	case DW_CFA_val_offset:
		return set_offset(m, reg, LOCATION_CFA, signed_uleb(m));
	case DW_CFA_val_offset_sf:
		return set_offset(m, reg, LOCATION_CFA, cursor_sleb(c));
	case DW_CFA_restore_extended:
		return restore(m, reg);
	case DW_CFA_undefined:
		return set(m, reg, (struct frame_location){.kind = LOCATION_UNDEFINED});
	case DW_CFA_same_value:
		return set(m, reg, (struct frame_location){.kind = LOCATION_SAME});
	case DW_CFA_register:
		return set(m, reg, register_plus(cursor_uleb(c), 0));
	case DW_CFA_expression:
		return set(m, reg, expression(m, LOCATION_AT_EXPR));
	default: /* DW_CFA_val_expression */
		return set(m, reg, expression(m, LOCATION_EXPR));
	}
}

static void step_low(struct interpreter *m, uint8_t op)
{
	struct cursor *c = &m->c;

	switch (op) {
	case DW_CFA_nop:
	case DW_CFA_GNU_window_save: /* aarch64: whether the return address is signed is ignored */
	case DW_CFA_AARCH64_negate_ra_state_with_pc:
		return;
	case DW_CFA_set_loc:
		return set_loc(m);
	case DW_CFA_advance_loc1:
		return advance_by(m, cursor_u8(c));
	case DW_CFA_advance_loc2:
		return advance_by(m, cursor_u16(c));
	case DW_CFA_advance_loc4:
		return advance_by(m, cursor_u32(c));
	case DW_CFA_MIPS_advance_loc8:
		return advance_by(m, cursor_u64(c));
	case DW_CFA_remember_state:
		return remember_state(m);
	case DW_CFA_restore_state:
		return restore_state(m);
	case DW_CFA_def_cfa ... DW_CFA_def_cfa_expression:
	case DW_CFA_def_cfa_sf:
	case DW_CFA_def_cfa_offset_sf:
		return step_cfa(m, op);
	case DW_CFA_offset_extended ... DW_CFA_register:
	case DW_CFA_expression:
	case DW_CFA_offset_extended_sf:
	case DW_CFA_val_offset ... DW_CFA_val_expression:
	case DW_CFA_GNU_negative_offset_extended:
		return step_register(m, op);
	case DW_CFA_GNU_args_size:
		cursor_uleb(c);
		return;
	default:
		fail(m);
	}
}

static void interpret(struct interpreter *m, struct cursor program)
{
	m->c = program;
	while (m->c.pos < m->c.end) {
		uint8_t op = *m->c.pos++, low = op & 0x3f;

		switch (op & 0xc0) {
		case DW_CFA_advance_loc:
			advance_by(m, low);
			break;
		case DW_CFA_offset:
			set_offset(m, low, LOCATION_AT_CFA, signed_uleb(m));
			break;
		case DW_CFA_restore:
			restore(m, low);
			break;
		default:
			step_low(m, op);
		}
	}
	if (m->c.bad)
		m->bad = true;
}

/* Copies the expression of a location into the rule. */
static int keep_expression(const struct cfi_section *s, struct frame_rule *rule, struct frame_location *l,
			   size_t *used)
{
	if (l->kind != LOCATION_EXPR && l->kind != LOCATION_AT_EXPR)
		return 0;
	if (l->len > FRAME_EXPRESSIONS_MAX - *used)
		return -ENOTSUP;
	memcpy(rule->bytes + *used, s->bytes + l->off, l->len);
	l->off = (int64_t)*used;
	*used += l->len;
	return 0;
}

static int finish(const struct interpreter *m, struct frame_rule *rule)
{
	const struct elf_arch *arch = m->section->arch;
	size_t used = 0;
	int r;

	*rule = (struct frame_rule){
		.start = m->row, .end = m->end, .signal = m->cie->signal, .ra_reg = (uint8_t)m->cie->ra_reg};
	rule->sp_reg = arch->sp;
	rule->preserved = arch->preserved;
	rule->cfa = m->now.cfa;
	memcpy(rule->regs, m->now.regs, sizeof(rule->regs));
	r = keep_expression(m->section, rule, &rule->cfa, &used);
	for (unsigned i = 0; i < FRAME_REGISTERS && r == 0; i++)
		r = keep_expression(m->section, rule, &rule->regs[i], &used);
	return r;
}

/* Finds the rule of query->va, which the FDE covers. */
static void run(struct interpreter *m, const struct cfi_section *s, const struct cfi_cie *cie,
		const struct cfi_fde *fde, struct frame_query *query)
{
	*m = (struct interpreter){.section = s, .cie = cie, .in_cie = true};
	m->now.cfa_reg = CFA_EXPRESSION;
	query->error = -EINVAL;
	if (cie->ra_reg >= FRAME_REGISTERS)
		return;
	interpret(m, cie->program);
	if (m->bad)
		return;
	m->initial = m->now;
	m->in_cie = false;
	m->depth = 0;
	m->loc = m->row = fde->start;
	m->end = fde->end;
	m->target = query->va;
	interpret(m, fde->program);
	if (m->bad && !m->found)
		return;
	query->error = finish(m, &query->rule);
	query->fde_start = fde->start;
	query->fde_end = fde->end;
}

/* The FDE that covers an address. Of several, the one that starts last applies, as in a table (rows.h). */
struct cover {
	struct cfi_entry entry;
	uint64_t start;
	bool any;
};

struct pass {
	const struct cfi_section *section;
	struct frame_query *query;
	size_t n;
	struct cover *covers;
	struct cie_cache cache;
	struct cfi_output out; /* required by the cache of CIEs */
};

static int cover_all(struct pass *p)
{
	struct cfi_entry entry;
	uint64_t offset = 0;

	while (entry_next(p->section, &offset, &entry) > 0) {
		const struct cie_slot *cie;
		struct cfi_fde fde;
		int fatal;

		if (entry.is_cie || entry.body.bad)
			continue;
		cie = cie_cache_get(&p->cache, &p->out, p->section, entry.cie, &fatal);
		if (!cie)
			return fatal;
		if (cie->cie.error || entry_fde(p->section, &cie->cie, &entry, &fde))
			continue;
		for (size_t i = 0; i < p->n; i++) {
			struct cover *c = &p->covers[i];

			if (p->query[i].error != -ENOENT || p->query[i].va < fde.start ||
			    p->query[i].va >= fde.end || (c->any && fde.start <= c->start))
				continue;
			*c = (struct cover){entry, fde.start, true};
		}
	}
	return 0;
}

static int run_all(struct pass *p, struct interpreter *m)
{
	for (size_t i = 0; i < p->n; i++) {
		const struct cie_slot *cie;
		struct cfi_fde fde;
		int fatal;

		if (!p->covers[i].any)
			continue;
		cie = cie_cache_get(&p->cache, &p->out, p->section, p->covers[i].entry.cie, &fatal);
		if (!cie)
			return fatal;
		if (!entry_fde(p->section, &cie->cie, &p->covers[i].entry, &fde))
			run(m, p->section, &cie->cie, &fde, &p->query[i]);
	}
	return 0;
}

int frame_rules_in_section(const struct cfi_section *s, struct frame_query *query, size_t n)
{
	_cleanup_free_ struct cover *covers = calloc(n, sizeof(*covers));
	_cleanup_free_ struct interpreter *m = malloc(sizeof(*m));
	struct pass p = {.section = s, .query = query, .n = n, .covers = covers};
	int r = covers && m ? cfi_output_init(&p.out) : -ENOMEM;

	if (r < 0)
		return r;
	cie_cache_init(&p.cache, s);
	r = cover_all(&p);
	if (r == 0)
		r = run_all(&p, m);
	cie_cache_fini(&p.cache);
	cfi_output_fini(&p.out);
	return r;
}

struct frame_step {
	const struct frame_rule *rule;
	const struct frame_memory *memory;
	const struct frame_registers *regs;
	uint64_t cfa;
};

static int evaluate_location(const struct frame_step *s, const struct frame_location *l,
			     const uint64_t *initial, uint64_t *ret)
{
	return evaluate(s->regs, s->memory, cursor_of(s->rule->bytes + l->off, l->len), initial, ret);
}

static int word(const struct frame_step *s, uint64_t address, uint64_t *ret)
{
	return s->memory->read(s->memory->data, ret, sizeof *ret, address) < 0 ? -EFAULT : 0;
}

/* Computes the value that register `reg` has in the caller. -ENODATA: unknown. */
static int locate(const struct frame_step *s, unsigned reg, uint64_t *ret)
{
	const struct frame_location *l = &s->rule->regs[reg];
	uint64_t address;
	int r;

	switch ((enum frame_location_kind)l->kind) {
	case LOCATION_UNSAID:
		if (reg == s->rule->sp_reg) {
			*ret = s->cfa;
			return 0;
		}
		if (!(s->rule->preserved >> reg & 1))
			return -ENODATA;
		/* fall through */
	case LOCATION_SAME:
		*ret = s->regs->value[reg];
		return s->regs->known >> reg & 1 ? 0 : -ENODATA;
	case LOCATION_UNDEFINED:
		return -ENODATA;
	case LOCATION_AT_CFA:
		return word(s, s->cfa + (uint64_t)l->off, ret);
	case LOCATION_CFA:
		*ret = s->cfa + (uint64_t)l->off;
		return 0;
	case LOCATION_REGISTER:
		*ret = s->regs->value[l->reg] + (uint64_t)l->off;
		return s->regs->known >> l->reg & 1 ? 0 : -ENODATA;
	case LOCATION_AT_EXPR:
		r = evaluate_location(s, l, &s->cfa, &address);
		return r < 0 ? r : word(s, address, ret);
	case LOCATION_EXPR:
		return evaluate_location(s, l, &s->cfa, ret);
	case LOCATION_UNSUPPORTED:
		break;
	}
	return -ENOTSUP;
}

static int find_cfa(struct frame_step *s)
{
	const struct frame_location *l = &s->rule->cfa;

	if (l->kind == LOCATION_EXPR)
		return evaluate_location(s, l, NULL, &s->cfa);
	if (l->kind != LOCATION_REGISTER)
		return -ENOTSUP;
	s->cfa = s->regs->value[l->reg] + (uint64_t)l->off;
	return s->regs->known >> l->reg & 1 ? 0 : -ENODATA;
}

static bool location_valid(const struct frame_location *l)
{
	if (l->kind > LOCATION_UNSUPPORTED || l->reg >= FRAME_REGISTERS)
		return false;
	if (l->kind != LOCATION_AT_EXPR && l->kind != LOCATION_EXPR)
		return true;
	return l->off >= 0 && l->off <= (int64_t)FRAME_EXPRESSIONS_MAX &&
	       l->len <= (int64_t)FRAME_EXPRESSIONS_MAX - l->off;
}

bool frame_rule_valid(const struct frame_rule *rule, uint64_t va)
{
	if (va < rule->start || va >= rule->end || rule->ra_reg >= FRAME_REGISTERS ||
	    rule->sp_reg >= FRAME_REGISTERS || !location_valid(&rule->cfa) || !flat_is_bool(&rule->signal))
		return false;
	for (unsigned i = 0; i < FRAME_REGISTERS; i++)
		if (!location_valid(&rule->regs[i]))
			return false;
	return true;
}

int frame_rule_step(const struct frame_rule *rule, const struct frame_memory *memory,
		    struct frame_registers *regs)
{
	struct frame_step s = {.rule = rule, .memory = memory, .regs = regs};
	struct frame_registers caller = {.known = 0};
	int r;

	if (rule->regs[rule->ra_reg].kind == LOCATION_UNDEFINED)
		return 1;
	r = find_cfa(&s);
	if (r < 0)
		return r;
	for (unsigned i = 0; i < FRAME_REGISTERS; i++) {
		r = locate(&s, i, &caller.value[i]);
		if (r == 0)
			caller.known |= 1u << i;
		else if (i == rule->ra_reg || i == rule->sp_reg)
			return r;
	}
	*regs = caller;
	return 0;
}
