// SPDX-License-Identifier: Apache-2.0
/*
 * A frame has x29 and x30 in its highest two words. Compiled methods use x29 for anything, so that only the
 * stack pointer says where the frame is; what calls native methods, and stubs, have a frame record.
 *
 * Where the flow ends, what follows has the state that a jump has brought there, or else the frame of known
 * size. Before a method has a frame, a jump out of it does not end the flow: it goes to where a wrong
 * receiver is handled, or has taken the place of the first instruction of a method that is not to be entered
 * any more.
 */
#include "agent/elf/code/a64_hotspot.h"

#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/code/a64.h"
#include "agent/elf/code/a64_memory.h"
#include "agent/elf/code/hotspot_targets.h"

#define FRAME_MAX (1 << 20)
#define PAIR_BYTES 16 /* x29 and x30 */

struct follower {
	struct memory_rows *rows;
	const struct memory_code *code;
	enum hotspot_code_kind kind;
	struct hotspot_frame usual; /* where nothing leads to */
	struct hotspot_frame now;
	bool made; /* the frame: what has none now is behind an epilogue */
	struct hotspot_targets targets;
};

/*
 * `depth`: -1 if it is not known; `saved`: the caller's x29, and the return address behind it, are so far
 * below the CFA.
 */
static const struct hotspot_frame entry = {0};

/* Stubs move the stack pointer, so that x29 says more there. */
static struct elf_rule rule_of(const struct follower *f)
{
	const struct hotspot_frame *s = &f->now;
	const bool by_record = s->record && (f->kind != HOTSPOT_CODE_METHOD || s->depth < 0);
	struct elf_rule rule = {.cfa_kind = CFA_REG_OFF,
				.cfa_reg = by_record ? A64_FP : A64_SP,
				.cfa_off = by_record ? s->saved : s->depth,
				.flags = hotspot_is_freed(f->kind) ? RULE_COMPILED : 0};

	if (rule.cfa_off < 0)
		return (struct elf_rule){.cfa_kind = CFA_NONE, .cfa_off = NO_RULE_REFUSED};
	if (s->saved) {
		rule.fp = (struct elf_reg_rule){.kind = REG_CFA_OFF, .off = -s->saved};
		rule.ra = (struct elf_reg_rule){.kind = REG_CFA_OFF, .off = 8 - s->saved};
	}
	return rule;
}

static int put(struct follower *f, uint32_t off)
{
	const struct elf_rule rule = rule_of(f);

	return memory_rows_add(f->rows, off, &rule);
}

/* Notes the state at the target of a jump, if it is ahead and not the usual one. */
static void note_target(struct follower *f, int64_t off, uint32_t at)
{
	if (off > at && off < f->code->n && !hotspot_frame_same(&f->now, &f->usual))
		hotspot_targets_note(&f->targets, (uint32_t)off, &f->now);
}

static void set_depth(struct hotspot_frame *s, int64_t depth)
{
	s->depth = s->depth >= 0 && depth >= 0 && depth <= FRAME_MAX ? (int32_t)depth : -1;
}

static bool is_pair(const struct a64_insn *insn)
{
	return insn->reg == A64_FP && insn->reg2 == A64_LR && insn->base == A64_SP;
}

/* stp, ldp of x29 and x30 at sp; `at` is how far below the CFA. */
static void move_pair(struct follower *f, const struct a64_insn *insn, int32_t at)
{
	struct hotspot_frame *s = &f->now;

	if (insn->op == A64_STORE && !s->saved && (f->kind != HOTSPOT_CODE_METHOD || at == PAIR_BYTES))
		s->saved = at >= PAIR_BYTES ? at : 0;
	else if (insn->op == A64_LOAD && s->saved == at) {
		s->saved = 0;
		s->record = false;
	}
}

static void load_or_store(struct follower *f, const struct a64_insn *insn)
{
	struct hotspot_frame *s = &f->now;

	if (insn->base == A64_SP && insn->pre && insn->writeback)
		set_depth(s, (int64_t)s->depth - insn->writeback);
	if (is_pair(insn) && s->depth >= 0)
		move_pair(f, insn, s->depth - insn->disp);
	if (insn->base == A64_SP && !insn->pre && insn->writeback)
		set_depth(s, (int64_t)s->depth - insn->writeback);
}

/*
 * sp is changed by a register's value. Of a large frame, a method makes and removes all but the pair so; it
 * never changes sp in another way that is not followed, but to restore it.
 */
static void move_sp_far(struct follower *f)
{
	struct hotspot_frame *s = &f->now;

	if (f->kind == HOTSPOT_CODE_METHOD || f->kind == HOTSPOT_CODE_NATIVE)
		s->depth = s->depth == PAIR_BYTES ? f->usual.depth : PAIR_BYTES;
	else
		s->depth = -1;
}

static void add(struct follower *f, const struct a64_insn *insn)
{
	struct hotspot_frame *s = &f->now;

	if (insn->reg == A64_SP) {
		if (insn->base == A64_SP)
			set_depth(s, (int64_t)s->depth - insn->disp);
		else if (insn->base == A64_FP && s->record)
			s->depth = s->saved - insn->disp;
		else if (f->kind != HOTSPOT_CODE_METHOD)
			s->depth = -1;
	} else if (insn->reg == A64_FP) {
		s->record = s->saved && s->depth >= 0 && insn->base == A64_SP &&
			    s->depth - insn->disp == s->saved;
		f->usual.record |= s->record && f->kind == HOTSPOT_CODE_NATIVE;
	}
}

/* What an instruction does to the stack pointer, to x29 and to x30. */
static void apply(struct follower *f, const struct a64_insn *insn)
{
	struct hotspot_frame *s = &f->now;

	if (insn->op == A64_STORE || (insn->op == A64_LOAD && insn->base != A64_NONE)) {
		load_or_store(f, insn);
		if (insn->op == A64_LOAD && !is_pair(insn) && insn->writes & 1u << A64_FP)
			s->record = false;
	} else if (insn->op == A64_ADD) {
		add(f, insn);
	} else if (insn->op == A64_ADD_REG && insn->reg == A64_SP) {
		move_sp_far(f);
	} else {
		if (insn->writes & 1u << A64_FP)
			s->record = false;
		if (insn->writes & 1u << A64_SP && f->kind != HOTSPOT_CODE_METHOD)
			s->depth = -1;
	}
	/* the return address is lost where a function that has not saved it calls another */
	if (insn->writes & 1u << A64_LR && !s->saved && !is_pair(insn))
		*s = (struct hotspot_frame){.depth = -1};
}

static bool ends_flow(const struct follower *f, const struct a64_insn *insn)
{
	switch (insn->op) {
	case A64_RETURN:
		return true;
	case A64_JUMP:
	case A64_JUMP_REG:
	case A64_TRAP:
		return f->made || f->kind > HOTSPOT_CODE_NATIVE;
	default:
		return false;
	}
}

static uint32_t word_at(const struct memory_code *c, uint32_t off)
{
	uint32_t word = 0;

	memcpy(&word, c->code + off, c->n - off < A64_BYTES ? c->n - off : A64_BYTES);
	return word;
}

static int follow(struct follower *f)
{
	bool ended = false;
	int r = 0;

	for (uint32_t at = 0; at < f->code->n && r == 0; at += A64_BYTES) {
		const struct a64_insn insn = a64_decode(word_at(f->code, at));
		struct hotspot_frame brought;

		if (hotspot_targets_take(&f->targets, at, &brought) && ended)
			f->now = brought;
		else if (ended)
			f->now = f->usual;
		r = put(f, at);
		if (insn.op == A64_JUMP || insn.op == A64_BRANCH)
			note_target(f, (int64_t)at + insn.disp, at);
		ended = ends_flow(f, &insn);
		apply(f, &insn);
		f->made |= f->now.saved != 0;
	}
	return r;
}

/* Rows of calls alone, where the frame is as its size says. */
static int follow_calls(struct follower *f)
{
	int r = 0;

	for (uint32_t at = 0; at < f->code->n && r == 0; at += A64_BYTES) {
		const struct a64_insn insn = a64_decode(word_at(f->code, at));
		const bool calls = insn.op == A64_CALL || insn.op == A64_CALL_REG;

		f->now = calls ? f->usual : (struct hotspot_frame){.depth = -1};
		r = put(f, at);
	}
	return r;
}

/* Any number of functions: what nothing is found out about stays so. */
static int analyse(struct memory_rows *ret, const struct memory_code *code)
{
	struct memory_code stubs = *code;
	int r;

	stubs.function = stubs.frame_pointer = false;
	r = a64_memory_rows(ret, &stubs);
	for (size_t i = 0; r == 0 && i < ret->n; i++)
		if (ret->v[i].rule.cfa_kind == CFA_NONE)
			ret->v[i].rule.cfa_off = NO_RULE_REFUSED;
	return r;
}

int a64_hotspot_rows(struct memory_rows *ret, const struct memory_code *code, enum hotspot_code_kind kind,
		     uint32_t frame_bytes)
{
	_cleanup_(memory_rows_fini) struct memory_rows made = {0};
	struct follower f = {.rows = &made, .code = code, .kind = kind, .now = entry, .usual = entry};
	int r;

	if (frame_bytes >= PAIR_BYTES)
		f.usual = (struct hotspot_frame){.depth = (int32_t)frame_bytes, .saved = PAIR_BYTES};
	if (kind == HOTSPOT_CODE_STUBS || kind == HOTSPOT_CODE_ADAPTERS)
		r = analyse(&made, code);
	else if (kind == HOTSPOT_CODE_FRAMELESS)
		r = put(&f, 0);
	else if (kind == HOTSPOT_CODE_CALLS)
		r = follow_calls(&f);
	else
		r = follow(&f);
	if (r < 0)
		return r;
	*ret = made;
	made = (struct memory_rows){0};
	return 0;
}
