// SPDX-License-Identifier: Apache-2.0
/*
 * Behind the prologue, the frame is the same everywhere but in epilogues, which take it away: as functions
 * restore rbp last, one with a frame pointer is stepped by it until then. A handler of an exception has a
 * frame of its own, but the method's frame pointer in rbp, and is stepped by rsp.
 */
#include "agent/elf/code/dotnet_rows.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/code/memory_rows.h"
#include "agent/elf/code/x86.h"

#define DWARF_FP 6
#define DWARF_SP 7
#define FRAME_MAX (1 << 26) /* bytes */
#define UNWIND_VERSION 1u
#define UNWIND_CHAINED 4u /* a flag: the rest is elsewhere */
#define UNWIND_HEAD 4u
#define STEPS_MAX 256u

enum operation {
	PUSH_REGISTER,
	ALLOCATE_LARGE,
	ALLOCATE_SMALL,
	SET_FRAME,
	SAVE_REGISTER,
	SAVE_REGISTER_FAR,
	SAVE_VECTOR = 8,
	SAVE_VECTOR_FAR,
	SET_FRAME_LARGE = 11, /* .NET's own */
};

struct state {
	int32_t depth; /* bytes from rsp to the CFA; 0: not known */
	int32_t frame; /* the same from rbp; 0: it has something else */
	int32_t saved; /* the caller's rbp is so many bytes below the CFA; 0: it is in rbp */
};

static const struct state entry = {.depth = 8};

struct step {
	uint32_t off; /* of the instruction behind */
	struct state state;
};

struct prologue {
	uint32_t n;
	struct step steps[STEPS_MAX];
};

static uint32_t u16_at(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

/* Slots of 2 bytes that an operation takes; 0: unknown. */
static uint32_t slots_of(uint8_t operation, uint8_t info)
{
	switch (operation) {
	case PUSH_REGISTER:
	case ALLOCATE_SMALL:
	case SET_FRAME:
		return 1;
	case ALLOCATE_LARGE:
		return info ? 3 : 2;
	case SAVE_REGISTER:
	case SAVE_VECTOR:
		return 2;
	case SAVE_REGISTER_FAR:
	case SAVE_VECTOR_FAR:
	case SET_FRAME_LARGE:
		return 3;
	default:
		return 0;
	}
}

/* The 32 bits behind an operation's own two bytes. */
static int64_t large_operand(const uint8_t *code)
{
	return (int64_t)(u16_at(code + 2) | (uint64_t)u16_at(code + 4) << 16);
}

/* Does what the operation at `code` says, all of whose slots are there. False: it has no sense. */
static bool apply(struct state *s, const uint8_t *code, const uint8_t *unwind)
{
	const uint8_t operation = code[1] & 15, info = code[1] >> 4;
	int64_t depth = s->depth, frame;

	switch (operation) {
	case PUSH_REGISTER:
		depth += 8;
		if (info == X86_BP)
			s->saved = (int32_t)depth;
		break;
	case ALLOCATE_SMALL:
		depth += info * 8 + 8;
		break;
	case ALLOCATE_LARGE:
		depth += info ? large_operand(code) : (int64_t)u16_at(code + 2) * 8;
		break;
	case SET_FRAME:
	case SET_FRAME_LARGE:
		frame = 16 * (operation == SET_FRAME ? unwind[3] >> 4 : large_operand(code));
		if ((unwind[3] & 15) != X86_BP || frame > depth - 8)
			return false;
		s->frame = (int32_t)(depth - frame);
		break;
	default:
		break;
	}
	if (depth > FRAME_MAX)
		return false;
	s->depth = (int32_t)depth;
	return true;
}

/* The states of the prologue, whose operations are listed from the last one to the first. */
static int read_prologue(struct prologue *ret, const uint8_t *unwind, size_t n)
{
	uint32_t starts[STEPS_MAX], count, n_codes = 0;
	struct state s = entry;

	if (n < UNWIND_HEAD || (unwind[0] & 7) != UNWIND_VERSION || unwind[0] >> 3 & UNWIND_CHAINED)
		return -ENOTSUP;
	count = unwind[2];
	if (UNWIND_HEAD + 2 * count > n)
		return -ENOTSUP;
	for (uint32_t i = 0; i < count;) {
		const uint8_t *code = unwind + UNWIND_HEAD + (size_t)2 * i;
		const uint32_t slots = slots_of(code[1] & 15, code[1] >> 4);

		if (!slots || slots > count - i)
			return -ENOTSUP;
		starts[n_codes++] = i;
		i += slots;
	}
	ret->n = 0;
	while (n_codes--) {
		const uint8_t *code = unwind + UNWIND_HEAD + (size_t)2 * starts[n_codes];

		if (!apply(&s, code, unwind) || (ret->n && code[0] < ret->steps[ret->n - 1].off))
			return -ENOTSUP;
		ret->steps[ret->n++] = (struct step){code[0], s};
	}
	return 0;
}

/* --- rows */

static int put(struct memory_rows *rows, uint32_t off, const struct state *s, uint8_t flags)
{
	struct elf_rule rule = {.cfa_kind = CFA_REG_OFF,
				.cfa_reg = s->frame ? DWARF_FP : DWARF_SP,
				.cfa_off = s->frame ?: s->depth,
				.flags = flags,
				.ra = {.kind = REG_CFA_OFF, .off = -8}};

	if (rule.cfa_off < 8)
		rule = (struct elf_rule){.cfa_kind = CFA_NONE, .cfa_off = NO_RULE_REFUSED};
	else if (s->saved)
		rule.fp = (struct elf_reg_rule){.kind = REG_CFA_OFF, .off = -s->saved};
	return memory_rows_add(rows, off, &rule);
}

static bool sets_sp(const struct x86_insn *insn)
{
	const bool has_reg = insn->op == X86_ADD || insn->op == X86_AND || insn->op == X86_MOVE ||
			     insn->op == X86_LEA || insn->op == X86_LOAD;

	return (has_reg && insn->reg == X86_SP) || insn->writes & 1u << X86_SP;
}

/* What an instruction of an epilogue leaves. */
static void leave(struct state *s, const struct x86_insn *insn)
{
	const bool moves = (insn->op == X86_ADD && insn->reg == X86_SP && insn->disp > 0) ||
			   (insn->op == X86_LEA && insn->reg == X86_SP && insn->base == X86_SP);

	if (insn->op == X86_POP && insn->reg == X86_BP)
		*s = (struct state){.depth = s->saved - 8};
	else if (insn->op == X86_LEAVE)
		*s = (struct state){.depth = s->frame ? s->frame - 8 : 0};
	else if (!s->frame && insn->op == X86_POP)
		s->depth -= 8;
	else if (!s->frame && moves)
		s->depth -= insn->disp;
}

static bool ends_flow(uint8_t op)
{
	return op == X86_RETURN || op == X86_JUMP || op == X86_JUMP_FAR_AWAY || op == X86_TRAP;
}

/*
 * Rows from `at`, the end of the prologue, on. Code that cannot be decoded has none of which more is known.
 */
static int follow(struct memory_rows *rows, const struct memory_code *c, uint32_t at,
		  const struct state *body, uint8_t flags)
{
	struct state now = *body;
	int r = put(rows, at, &now, flags);

	while (at < c->n && r == 0) {
		const struct x86_insn insn = x86_decode(c->code + at, c->n - at);
		const struct state before = now;

		if (!insn.len)
			return put(rows, at, body, RULE_CHECKED);
		at += insn.len;
		if (ends_flow(insn.op))
			now = *body;
		else
			leave(&now, &insn);
		if (at < c->n && memcmp(&now, &before, sizeof now) != 0)
			r = put(rows, at, &now, flags);
	}
	return r;
}

int dotnet_rows_make(struct memory_rows *ret, const struct memory_code *code, bool checked,
		     const uint8_t *unwind, size_t n)
{
	_cleanup_(memory_rows_fini) struct memory_rows rows = {0};
	const uint8_t flags = checked ? RULE_CHECKED : 0;
	struct prologue p;
	struct state s = entry;
	uint32_t at = 0;
	int r;

	if (memory_rows_machine() != EM_X86_64)
		return -ENOTSUP;
	if (!code->n || code->n > MEMORY_CODE_MAX)
		return -EFBIG;
	r = read_prologue(&p, unwind, n);
	for (uint32_t i = 0; i < p.n && r == 0; i++) {
		if (p.steps[i].off >= code->n)
			return -ENOTSUP;
		if (p.steps[i].off > at)
			r = put(&rows, at, &s, flags);
		at = p.steps[i].off;
		s = p.steps[i].state;
	}
	if (r == 0)
		r = follow(&rows, code, at, &s, flags);
	if (r < 0)
		return r;
	*ret = rows;
	rows = (struct memory_rows){0};
	return 0;
}

int dotnet_rows_make_stub(struct memory_rows *ret)
{
	*ret = (struct memory_rows){0};
	return put(ret, 0, &entry, 0);
}

uint32_t dotnet_rows_leaves(const uint8_t *code, uint32_t n)
{
	for (uint32_t at = 0; at < n;) {
		const struct x86_insn insn = x86_decode(code + at, n - at);

		at += insn.len;
		switch (insn.op) {
		case X86_RETURN:
		case X86_JUMP_FAR_AWAY:
			return at;
		case X86_PUSH:
		case X86_POP:
		case X86_LEAVE:
		case X86_CALL:
		case X86_CALL_FAR_AWAY:
		case X86_JUMP:
		case X86_TRAP:
			return 0;
		default:
			break;
		}
		if (!insn.len || sets_sp(&insn))
			return 0;
	}
	return 0;
}
