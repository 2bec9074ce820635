// SPDX-License-Identifier: Apache-2.0
/*
 * The analysis often knows several registers by which the CFA can be computed, and that of the row must be
 * among them.
 *
 * A sequence of instructions that differ gets its class where it begins: by the FDE (whose first row tells a
 * function, CFA = rsp + 8, from a part that was moved away), and by the instruction before.
 */
#include "tests/oracle/analysis/compare.h"

#include <stdio.h>
#include <string.h>

#include "agent/elf/file/elf_image.h"

#define ENTRY 8 /* CFA - rsp at the entry of a function */

static const uint8_t x86_number[16] = {X86_AX, X86_DX, X86_CX, X86_BX, X86_SI, X86_DI, X86_BP, X86_SP,
				       8,      9,      10,     11,     12,     13,     14,     15};

/* 1: equal, 0: differs, -1: the analysis does not know. */
static int compare_cfa(const struct ref_row *row, const struct flow_state *s)
{
	const uint8_t reg = row->reg < 16 ? x86_number[row->reg] : X86_NO_REG;
	const struct flow_slot *slot = reg == X86_SP ? &s->sp : &s->bp;

	if (row->cfa == REF_CFA_REG && reg < X86_REGS && s->known >> reg & 1)
		return s->reg[reg] == row->off;
	if (row->cfa == REF_CFA_DEREF && (reg == X86_SP || reg == X86_BP) && slot->valid)
		return slot->at == row->off && slot->add == row->add;
	return -1;
}

static enum outcome compare_fp(const struct ref_row *row, const struct flow_state *s)
{
	if (s->fp_at == FLOW_FP_LOST)
		return FP_UNKNOWN;
	if (row->rbp.kind == REF_SAME)
		return s->fp_at < 0 && !(s->known >> X86_BP & 1) ? FP_BOTH : s->fp_at ? FP_DIFFERS : EQUAL;
	/* behind `pop rbp`, GCC's rows refer to the word below rsp, which still has the value */
	if (row->rbp.kind == REF_AT)
		return s->fp_at == row->rbp.off || (!s->fp_at && -s->reg[X86_SP] > row->rbp.off) ? EQUAL
												 : FP_DIFFERS;
	return OTHER_BASE;
}

enum outcome compare_state(const struct ref_row *row, const struct flow_state *s)
{
	int cfa;

	if (row->signal || row->ra.kind == REF_UNDEFINED)
		return SPECIAL;
	cfa = compare_cfa(row, s);
	if (cfa < 0)
		return OTHER_BASE;
	if (!cfa || row->ra.kind != REF_AT || row->ra.off != -8)
		return CFA_DIFFERS;
	return compare_fp(row, s);
}

static bool differs(enum outcome o)
{
	return o == CFA_DIFFERS || o == FP_DIFFERS;
}

/* --- classes */

static struct x86_insn decode(const struct comparison *c, uint64_t va)
{
	uint8_t code[X86_MAX_BYTES] = {0};

	for (size_t n = sizeof code; n; n--)
		if (elf_image_read_code(c->img, va, code, n) == 0)
			return x86_decode(code, n);
	return (struct x86_insn){0};
}

static bool does_not_continue(uint8_t op)
{
	return op == X86_RETURN || op == X86_JUMP || op == X86_JUMP_FAR_AWAY || op == X86_TRAP;
}

static bool same_rules(const struct ref_row *a, const struct ref_row *b)
{
	return a->cfa == b->cfa && a->reg == b->reg && a->off == b->off && a->add == b->add &&
	       a->rbp.kind == b->rbp.kind && a->rbp.off == b->rbp.off;
}

static enum class by_function(const struct comparison *c, const struct ref_row *row) {
	size_t hint = 0; const struct ref_row *first = reference_find(c->reference, row->function, &hint);
	const bool part = first &&
			  (first->cfa != REF_CFA_REG || first->reg != REF_RSP || first->off != ENTRY);

	if (part) return c->start_is_entry ? PART_AS_FUNCTION : PART;
	return FUNCTION;
}

static enum class by_previous(const struct comparison *c, const struct ref_row *row,
			      const struct flow_state *state) {
	const struct x86_insn before = decode(c, c->va);

	if (does_not_continue(before.op)) return flow_at_entry(state) ? INNER_AS_FUNCTION : BEHIND_END;
	if (c->outcome != EQUAL && c->outcome != FP_BOTH) return JOINED;
	if (before.op == X86_CALL || before.op == X86_CALL_FAR_AWAY) return BEHIND_CALL;
	if (same_rules(c->row, row) && memcmp(&c->state, state, sizeof *state) != 0) return LAGS;
	return STEP;
}

static enum class classify(const struct comparison *c, uint64_t va, const struct ref_row *row,
			   const struct flow_state *state) {
	const bool follows = c->next == va && c->row && c->row->function == row->function;

	if (va == row->function) return by_function(c, row);
	if (follows && differs(c->outcome) && !does_not_continue(decode(c, c->va).op)) return c->class;
	if (follows) return by_previous(c, row, state);
	if (c->start_seen && by_function(c, row) == PART_AS_FUNCTION) return PART_AS_FUNCTION;
	return flow_at_entry(state) ? INNER_AS_FUNCTION : JOINED;
}

static void count(struct comparison *c, uint64_t va, const struct ref_row *row,
		  const struct flow_state *state, enum outcome o, enum class class)
{
	struct class_count *count = &c->classes[class];
	const bool goes_on = c->next == va && differs(c->outcome) && c->class == class;

	count->instructions[o == FP_DIFFERS]++;
	if (!goes_on && count->places++ == 0) {
		count->example = va;
		count->state = *state;
		count->row = *row;
	}
	if (c->show && !goes_on) {
		static const char *const ids[] = {
#define X(name, id, text) id,
			CLASSES(X)
#undef X
		};

		c->show--;
		compare_print(ids[class], va, row, state);
		printf("\n");
	}
}

void compare_print(const char *prefix, uint64_t va, const struct ref_row *row, const struct flow_state *s)
{
	static const char *const bases[] = {"other", "", "*"};
	static const char *const saved[] = {"same", "CFA", "undefined", "other"};

	printf("%s\t%#lx\tfunction %#lx, .eh_frame: CFA %sr%u%+d, rbp %s%+d; analysis: rsp ", prefix,
	       (unsigned long)va, (unsigned long)row->function, bases[row->cfa], row->reg, row->off,
	       saved[row->rbp.kind], row->rbp.off);
	printf(s->known >> X86_SP & 1 ? "%+d" : "?", s->reg[X86_SP]);
	printf(s->known >> X86_BP & 1 ? ", rbp %+d" : ", rbp ?", s->reg[X86_BP]);
	printf(s->fp_at == FLOW_FP_LOST ? ", caller's rbp lost" : ", caller's rbp CFA%+d", s->fp_at);
}

static void note_rule(struct comparison *c, uint64_t va, const struct flow_state *state)
{
	struct elf_rule rule;

	if (c->next == va && memcmp(&c->state, state, sizeof *state) == 0)
		return;
	rule = flow_rule(state);
	c->rules += c->next != va || memcmp(&rule, &c->rule, sizeof rule) != 0;
	c->rule = rule;
}

void compare_instruction(struct comparison *c, uint64_t va, unsigned bytes, const struct flow_state *state)
{
	const struct ref_row *row = reference_find(c->reference, va, &c->hint);

	note_rule(c, va, state);
	if (row) {
		const enum outcome o = compare_state(row, state);

		if (row->function != c->function) {
			c->function = row->function;
			c->start_seen = c->start_is_entry = false;
		}
		if (va == row->function) {
			c->start_seen = true;
			c->start_is_entry = flow_at_entry(state);
		}
		c->n[o]++;
		c->bytes += bytes;
		if (differs(o)) {
			const enum class class = classify(c, va, row, state);

			count(c, va, row, state, o, class);
			c->class = class;
		}
		c->outcome = o;
	}
	c->row = row;
	c->va = va;
	c->next = va + bytes;
	c->state = *state;
}
