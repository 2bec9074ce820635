// SPDX-License-Identifier: Apache-2.0
/*
 * A method is entered with its Method in rbx, the caller's stack pointer in r13 and the return address on
 * the stack. It is popped, as room is made for local variables, and pushed again: push rbp; mov rbp, rsp;
 * push r13 (the caller's stack pointer); push 0; push rbx (the Method). From then on the frame stands.
 */
#include "agent/elf/code/hotspot_entries.h"

#include <elf.h>

#include "agent/base/cleanup.h"
#include "agent/elf/code/memory_rows.h"
#include "agent/elf/code/x86.h"

#define ENTRY_BYTES_MAX 512u /* until the frame stands */
#define TARGETS_MAX 8u
#define X86_R13 13

enum place {
	PLACE_UNKNOWN,
	PLACE_STACK,	/* the return address is at sp + depth */
	PLACE_REGISTER, /* it is in reg */
	PLACE_RECORD,	/* the frame record is made */
};

struct state {
	enum place place;
	int32_t depth;
	uint8_t reg;
	bool pushed_fp; /* the last word on the stack is rbp, above it is the return address */
};

struct target {
	uint32_t off;
	struct state state;
};

struct follower {
	struct memory_rows *rows;
	const struct memory_code *code;
	struct elf_rule standing; /* the frame's */
	struct state now;
	struct target targets[TARGETS_MAX]; /* of jumps ahead */
	size_t n_targets;
};

static int put(struct follower *f, uint32_t off)
{
	struct elf_rule rule = {.cfa_kind = CFA_ENTERED};

	switch (f->now.place) {
	case PLACE_STACK:
		rule.cfa_reg = x86_dwarf_number(X86_SP);
		rule.cfa_off = f->now.depth;
		break;
	case PLACE_RECORD:
		rule.cfa_reg = x86_dwarf_number(X86_BP);
		rule.cfa_off = 8;
		break;
	case PLACE_REGISTER:
		rule.ra = (struct elf_reg_rule){.kind = REG_REGISTER, .reg = x86_dwarf_number(f->now.reg)};
		break;
	case PLACE_UNKNOWN:
		rule = f->standing;
		break;
	}
	return memory_rows_add(f->rows, off, &rule);
}

static void note_target(struct follower *f, int64_t off)
{
	if (f->n_targets < TARGETS_MAX)
		f->targets[f->n_targets++] = (struct target){(uint32_t)off, f->now};
}

/* The state that a jump has brought to the offset. */
static bool take_target(const struct follower *f, uint32_t off, struct state *ret)
{
	for (size_t i = 0; i < f->n_targets; i++)
		if (f->targets[i].off == off) {
			*ret = f->targets[i].state;
			return true;
		}
	return false;
}

static void push(struct state *s, uint8_t reg)
{
	s->pushed_fp = false;
	if (s->place == PLACE_REGISTER && reg == s->reg) {
		s->place = PLACE_STACK;
		s->depth = 0;
	} else if (s->place == PLACE_STACK) {
		s->pushed_fp = reg == X86_BP && !s->depth;
		s->depth += 8;
	}
}

static void pop(struct state *s, uint8_t reg)
{
	s->pushed_fp = false;
	if (s->place == PLACE_STACK && !s->depth && reg != X86_NO_REG)
		*s = (struct state){.place = PLACE_REGISTER, .reg = reg};
	else if (s->place == PLACE_STACK)
		s->depth -= 8;
}

/* The stack pointer is another one: only a return address in a register is still known. */
static void move_stack(struct state *s)
{
	if (s->place != PLACE_REGISTER)
		s->place = PLACE_UNKNOWN;
}

/* Whether an instruction overwrites what the rules go by. */
static bool overwrites(const struct state *s, const struct x86_insn *insn)
{
	if (insn->writes & 1u << X86_BX)
		return true;
	if (s->place == PLACE_RECORD) /* the caller's stack pointer is on the stack by then */
		return insn->writes & 1u << X86_BP;
	return insn->writes & (1u << X86_R13 | 1u << X86_BP) ||
	       (s->place == PLACE_REGISTER && insn->writes & 1u << s->reg);
}

static void apply(struct state *s, const struct x86_insn *insn)
{
	const bool lost = overwrites(s, insn);

	switch (insn->op) {
	case X86_PUSH:
		push(s, insn->reg);
		return;
	case X86_POP:
		pop(s, insn->reg);
		break;
	case X86_MOVE:
		if (insn->reg == X86_BP && insn->base == X86_SP && s->pushed_fp) {
			*s = (struct state){.place = PLACE_RECORD};
			return;
		}
		break;
	case X86_ADD:
		if (insn->reg == X86_SP && s->place == PLACE_STACK)
			s->depth -= insn->disp;
		if (insn->reg == X86_SP)
			return;
		break;
	default:
		break;
	}
	if (insn->op != X86_OTHER && insn->reg == X86_SP && insn->op != X86_STORE)
		move_stack(s);
	if (lost)
		s->place = PLACE_UNKNOWN;
}

/* Whether the frame stands behind the instruction. */
static bool stands(const struct state *s, const struct x86_insn *insn)
{
	return s->place == PLACE_RECORD && insn->op == X86_PUSH && insn->reg == X86_BX;
}

static bool ends_flow(uint8_t op)
{
	return op == X86_JUMP || op == X86_JUMP_FAR_AWAY || op == X86_RETURN || op == X86_TRAP;
}

/* From an entry on, up to where the frame stands, or how the code goes on is not known. */
static int follow(struct follower *f, const struct hotspot_entry *e)
{
	const struct memory_code *c = f->code;
	const uint32_t limit = e->end - e->start > ENTRY_BYTES_MAX ? e->start + ENTRY_BYTES_MAX : e->end;
	struct x86_insn insn = {0};
	uint32_t at = e->start;
	int r = 0;

	f->now = (struct state){.place = PLACE_STACK};
	f->n_targets = 0;
	for (; at < limit && r == 0 && !stands(&f->now, &insn); at += insn.len) {
		if (ends_flow(insn.op))
			f->now.place = PLACE_UNKNOWN;
		else if (at > e->start)
			apply(&f->now, &insn);
		if (f->now.place == PLACE_UNKNOWN)
			(void)take_target(f, at, &f->now);
		if (f->now.place == PLACE_STACK && f->now.depth < 0)
			f->now.place = PLACE_UNKNOWN;
		insn = x86_decode(c->code + at, e->end - at);
		if (!insn.len)
			break;
		r = put(f, at);
		if ((insn.op == X86_JUMP || insn.op == X86_BRANCH) && insn.disp > 0)
			note_target(f, (int64_t)at + insn.len + insn.disp);
		if (insn.op == X86_CALL || insn.op == X86_CALL_FAR_AWAY)
			f->now.place = PLACE_UNKNOWN;
	}
	f->now.place = PLACE_UNKNOWN;
	return r == 0 && at < c->n ? put(f, at) : r;
}

int hotspot_interpreter_rows(struct memory_rows *ret, const struct memory_code *code, uint32_t slot_bytes,
			     const struct hotspot_entry *entries, size_t n)
{
	_cleanup_(memory_rows_fini) struct memory_rows made = {0};
	struct follower f = {.rows = &made,
			     .code = code,
			     .standing = {.cfa_kind = CFA_INTERPRETED, .cfa_off = -(int32_t)slot_bytes}};
	int r = put(&f, 0);

	for (size_t i = 0; i < n && r == 0 && memory_rows_machine() == EM_X86_64; i++)
		if (entries[i].start < entries[i].end && entries[i].end <= code->n &&
		    (!i || entries[i].start >= entries[i - 1].end))
			r = follow(&f, &entries[i]);
	if (r < 0)
		return r;
	*ret = made;
	made = (struct memory_rows){0};
	return 0;
}
