// SPDX-License-Identifier: Apache-2.0
/*
 * x86-64; of A64 see a64_hotspot.h. Where the flow ends, at a return or a jump, what follows has the state
 * that a jump has brought there, or else the kind's usual one: in a method, its frame; among stubs, another
 * function begins. So the slow paths behind a method's last return, which most of its methods have, need no
 * search for what leads to them.
 *
 * Some code keeps the stack pointer while it makes room of an amount that is not the same on all ways, or
 * aligns the stack: searches in strings, in a method; adapters, which rearrange arguments.
 */
#include "agent/elf/code/hotspot_rows.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/code/a64_hotspot.h"
#include "agent/elf/code/hotspot_entries.h"
#include "agent/elf/code/hotspot_targets.h"
#include "agent/elf/code/x86.h"

#define DWARF_FP 6
#define DWARF_SP 7
#define FRAME_MAX (1 << 20)
#define CALLEE_SAVED \
	(1u << X86_BX | 0xf000u) /* registers that a function leaves as they are: rbx, r12 to r15 */
#define STUB_ALIGN 16u
#define UD0_BYTES 3u
#define PATCH_BYTES 5u	   /* of a jump */
#define STORE_BYTES 7u	   /* mov [rsp - N], eax; sub rsp, N */
#define CONSTANT_BYTES 10u /* mov r10, N */

struct follower {
	struct memory_rows *rows;
	const struct memory_code *code;
	enum hotspot_code_kind kind;
	struct hotspot_frame usual; /* where nothing leads to */
	struct hotspot_frame now;
	bool guessed;  /* nothing has led to `now`: it is the usual one */
	uint8_t flags; /* RULE_* */
	struct hotspot_targets targets;
};

/* `depth`: 0 if it is not known; `saved`: 1 if the caller's rbp is at CFA - 16. */
static const struct hotspot_frame entry = {.depth = 8};

/*
 * Stubs push in loops, so that rbp says more there; what calls native methods may be entered with another
 * rbp.
 */
static struct elf_rule rule_of(const struct follower *f)
{
	const struct hotspot_frame *s = &f->now;
	const bool by_record = s->record && (f->kind != HOTSPOT_CODE_NATIVE || s->depth < 8);
	struct elf_rule rule = {.flags = f->flags};

	if (!by_record && s->depth < 8)
		return (struct elf_rule){.cfa_kind = CFA_NONE, .cfa_off = NO_RULE_REFUSED};
	rule.cfa_kind = CFA_REG_OFF;
	rule.cfa_reg = by_record ? DWARF_FP : DWARF_SP;
	rule.cfa_off = by_record ? 16 : s->depth;
	rule.ra = (struct elf_reg_rule){.kind = REG_CFA_OFF, .off = -8};
	if (s->record || s->saved)
		rule.fp = (struct elf_reg_rule){.kind = REG_CFA_OFF, .off = -16};
	return rule;
}

/* Whether the CFA is found by the stack pointer that is kept: the present one is not known. */
static bool needs_kept(const struct hotspot_frame *s)
{
	return !s->depth && !s->record && (s->on_stack || s->in_register);
}

static struct elf_rule by_kept(const struct follower *f)
{
	const struct hotspot_frame *s = &f->now;
	struct elf_rule rule = {.cfa_kind = CFA_REG_OFF, .flags = f->flags};

	rule.cfa_reg = x86_dwarf_number(s->keeper);
	rule.cfa_off = s->kept;
	if (s->on_stack) {
		rule.cfa_kind = CFA_DEREF_REG;
		rule.cfa_reg = DWARF_SP;
		rule.cfa_off = s->slot;
		rule.cfa_add = s->kept;
	}
	rule.ra = (struct elf_reg_rule){.kind = REG_CFA_OFF, .off = -8};
	if (s->saved)
		rule.fp = (struct elf_reg_rule){.kind = REG_CFA_OFF, .off = -16};
	return rule;
}

static int put(struct follower *f, uint32_t off)
{
	const struct elf_rule rule = needs_kept(&f->now) ? by_kept(f) : rule_of(f);

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
	s->depth = s->depth && depth >= 8 && depth <= FRAME_MAX ? (int32_t)depth : 0;
}

/* The stack pointer is the one again that was kept. */
static void restore(struct follower *f)
{
	f->now.depth = f->now.kept;
	f->now.in_register = f->now.on_stack = false;
}

/* The stack pointer moves by a number of bytes. */
static void move_slot(struct hotspot_frame *s, int64_t bytes)
{
	const int64_t slot = s->slot - bytes;

	s->on_stack &= slot >= 0 && slot < FRAME_MAX;
	s->slot = s->on_stack ? (int32_t)slot : 0;
}

static void pop(struct follower *f, const struct x86_insn *insn)
{
	struct hotspot_frame *s = &f->now;

	if (insn->reg == X86_SP) {
		if (s->on_stack && !s->slot)
			restore(f);
		else
			*s = f->kind == HOTSPOT_CODE_METHOD ? f->usual : (struct hotspot_frame){0};
		return;
	}
	s->in_register &= insn->reg != s->keeper;
	move_slot(s, 8);
	if (insn->reg == X86_BP && (s->depth == 16 || s->record)) {
		*s = (struct hotspot_frame){.depth = s->record && s->depth != 16 ? 0 : 8};
		return;
	}
	/* a method takes nothing of its frame away: this is no instruction, but a part of one */
	if (f->kind == HOTSPOT_CODE_METHOD && s->depth > 16 && s->depth <= f->usual.depth) {
		f->flags |= RULE_CHECKED;
		return;
	}
	set_depth(s, (int64_t)s->depth - 8);
}

/* rsp = rbp + disp, or rsp + disp, or what was kept. */
static void move_sp(struct follower *f, const struct x86_insn *insn, int32_t disp)
{
	struct hotspot_frame *s = &f->now;

	if (s->in_register && insn->op == X86_MOVE && insn->base == s->keeper) {
		restore(f);
		return;
	}
	if (insn->base == X86_SP)
		move_slot(s, disp);
	else
		s->on_stack = false;
	if (insn->base == X86_SP)
		set_depth(s, (int64_t)s->depth - disp);
	else if (insn->base == X86_BP && s->record)
		s->depth = 16 - disp;
	else if (f->kind != HOTSPOT_CODE_METHOD ||
		 insn->base != X86_BP) /* a method has kept its own rsp there */
		s->depth = 0;
}

/* rbp gets another value. */
static void set_fp(struct follower *f, const struct x86_insn *insn)
{
	struct hotspot_frame *s = &f->now;
	const bool makes_record = insn->op == X86_MOVE && insn->base == X86_SP && s->saved &&
				  (s->depth == 16 || !s->depth) && f->kind != HOTSPOT_CODE_METHOD;

	s->record = makes_record;
	if (!makes_record)
		return;
	s->depth =
		16; /* where the stack was aligned before, the caller's stack pointer is not known, but not needed */
	f->usual.record |= f->kind == HOTSPOT_CODE_NATIVE;
}

/* rsp gets another value, in a way that is not followed. A method does so only in order to keep it. */
static void lose_sp(struct follower *f, bool moved)
{
	if (f->kind == HOTSPOT_CODE_METHOD)
		return;
	f->now.depth = 0;
	f->now.record &= !moved;
}

static bool sets(const struct x86_insn *insn, uint8_t reg)
{
	const bool has_reg = insn->op == X86_ADD || insn->op == X86_AND || insn->op == X86_MOVE ||
			     insn->op == X86_LEA || insn->op == X86_LOAD;

	return (has_reg && insn->reg == reg) || insn->writes & 1u << reg;
}

/* What an instruction that does not change the stack pointer does to what is kept of it. */
static void keep(struct follower *f, const struct x86_insn *insn)
{
	struct hotspot_frame *s = &f->now;

	if (insn->op == X86_MOVE && insn->base == X86_SP && insn->reg != X86_BP && s->depth >= 8 &&
	    !s->in_register) {
		s->in_register = true;
		s->keeper = insn->reg;
		s->kept = s->depth;
	} else if (insn->op == X86_MOVE && s->in_register && insn->base == s->keeper) {
		s->keeper = insn->reg;
	} else if (s->in_register && sets(insn, s->keeper)) {
		s->in_register = false;
	}
}

/* What an instruction does to the stack pointer and to rbp. */
static void apply(struct follower *f, const struct x86_insn *insn)
{
	struct hotspot_frame *s = &f->now;

	switch (insn->op) {
	case X86_PUSH:
		move_slot(s, -8);
		if (s->in_register && insn->reg == s->keeper) {
			s->on_stack = true;
			s->slot = 0;
		}
		s->saved |= insn->reg == X86_BP && (s->depth == 8 || !s->depth);
		set_depth(s, (int64_t)s->depth + 8);
		return;
	case X86_POP:
		pop(f, insn);
		return;
	case X86_LEAVE:
		*s = (struct hotspot_frame){.depth = s->record || f->kind == HOTSPOT_CODE_NATIVE ? 8 : 0};
		return;
	case X86_STORE: /* mov [rsp + N], rbp in place of a push */
		s->saved |= insn->reg == X86_BP && insn->base == X86_SP && s->depth &&
			    s->depth - insn->disp == 16;
		if (s->in_register && insn->reg == s->keeper && insn->base == X86_SP) {
			s->on_stack = insn->disp >= 0 && insn->disp < FRAME_MAX;
			s->slot = s->on_stack ? insn->disp : 0;
		}
		return;
	case X86_CALL: /* of the next instruction: pushes an address */
		if (insn->disp == 0)
			set_depth(s, (int64_t)s->depth + 8);
		/* fall through */
	case X86_CALL_FAR_AWAY:
		s->in_register &= CALLEE_SAVED >> s->keeper & 1;
		return;
	default:
		break;
	}
	if (sets(insn, X86_BP))
		set_fp(f, insn);
	if (!sets(insn, X86_SP)) {
		keep(f, insn);
		return;
	}
	if (insn->op == X86_ADD) {
		move_slot(s, insn->disp);
		set_depth(s, (int64_t)s->depth - insn->disp);
	} else if (insn->op == X86_MOVE || insn->op == X86_LEA) {
		move_sp(f, insn, insn->op == X86_LEA ? insn->disp : 0);
	} else {
		s->on_stack = false;
		lose_sp(f, insn->op == X86_LOAD);
	}
}

/*
 * A method that is not to be entered any more: a jump out of it has taken the place of the first five
 * bytes behind its check of the receiver. What was there is either the store that touches the pages below
 * the stack, or a constant that the next instructions compare, or the subtraction that makes the frame.
 * Returns the offset of the next instruction; 0: it is no such jump.
 */
static uint32_t behind_patch(struct follower *f, const struct x86_insn *insn, uint32_t at)
{
	const uint8_t *left = f->code->code + at + PATCH_BYTES;
	const int64_t target = (int64_t)at + insn->len + insn->disp;

	if (f->kind > HOTSPOT_CODE_NATIVE || insn->op != X86_JUMP || insn->len != PATCH_BYTES ||
	    !hotspot_frame_same(&f->now, &entry) || f->guessed || (target >= 0 && target < f->code->n) ||
	    f->code->n - at < CONSTANT_BYTES)
		return 0;
	if (left[0] >= 0xfe && left[1] == 0xff)
		return at + STORE_BYTES;
	if (left[2] < 0x80 && !left[3] && !left[4])
		return at + CONSTANT_BYTES;
	if (left[0] || left[1])
		return 0;
	f->now = (struct hotspot_frame){.depth = f->usual.depth};
	return at + STORE_BYTES;
}

static bool ends_flow(uint8_t op)
{
	return op == X86_RETURN || op == X86_JUMP || op == X86_JUMP_FAR_AWAY || op == X86_TRAP;
}

/*
 * Where the bytes are no instruction, they are data, or one that we do not know. Among stubs, the next
 * function begins at an aligned address. In a method, it is what a stub of the first compiler will put in
 * place of other code; from there on, what is decoded is not certain.
 */
static uint32_t skip(struct follower *f, uint32_t at)
{
	if (f->kind != HOTSPOT_CODE_STUBS && f->kind != HOTSPOT_CODE_ADAPTERS) {
		f->flags |= RULE_CHECKED;
		return at + 1;
	}
	at += STUB_ALIGN - (uint32_t)((f->code->va + at) % STUB_ALIGN);
	return at < f->code->n ? at : f->code->n;
}

/*
 * The first compiler leaves places that are patched when they are reached: a jump has taken the place of the
 * first bytes of an instruction, whose last ones are zeros, which no instruction of HotSpot begins with.
 * Returns the offset of the next instruction.
 */
static uint32_t behind_rest(const struct follower *f, const struct x86_insn *insn, uint32_t at)
{
	if (f->kind != HOTSPOT_CODE_METHOD || insn->op != X86_JUMP || insn->len != PATCH_BYTES)
		return at;
	while (at < f->code->n && !f->code->code[at])
		at++;
	return at;
}

/* ud0 with its operand, which marks places that are never reached. */
static struct x86_insn decode(const struct memory_code *c, uint32_t at)
{
	if (c->n - at >= UD0_BYTES && c->code[at] == 0x0f && c->code[at + 1] == 0xff)
		return (struct x86_insn){.len = UD0_BYTES, .op = X86_TRAP};
	return x86_decode(c->code + at, c->n - at);
}

/*
 * A jump has brought a state to where the code goes on. Where both ways know the same stack pointer that is
 * kept, but not the same present one, the latter is not known.
 */
static void meet(struct follower *f, const struct hotspot_frame *brought, bool ended)
{
	struct hotspot_frame *s = &f->now;

	if (ended || f->guessed) {
		*s = *brought;
		f->guessed = false;
	} else if (s->depth != brought->depth && s->in_register && brought->in_register &&
		   s->keeper == brought->keeper && s->kept == brought->kept) {
		s->depth = 0;
	}
}

static int follow(struct follower *f)
{
	const struct memory_code *c = f->code;
	bool ended = false;
	uint32_t at = 0;
	int r = 0;

	while (at < c->n && r == 0) {
		const struct x86_insn insn = decode(c, at);
		struct hotspot_frame brought;
		uint32_t next;

		if (hotspot_targets_take(&f->targets, at, &brought)) {
			meet(f, &brought, ended);
		} else if (ended) {
			f->now = f->usual;
			f->guessed = true;
		}
		if (!insn.len) {
			f->now = (struct hotspot_frame){0};
			r = put(f, at);
			at = skip(f, at);
			ended = true;
			continue;
		}
		r = put(f, at);
		next = behind_patch(f, &insn, at);
		if (next) {
			ended = false;
			at = next;
			continue;
		}
		if (insn.op == X86_JUMP || insn.op == X86_BRANCH)
			note_target(f, (int64_t)at + insn.len + insn.disp, at);
		ended = ends_flow(insn.op);
		apply(f, &insn);
		at = behind_rest(f, &insn, at + insn.len);
	}
	return r;
}

/* Rows of calls through a register or memory alone, where the frame is as its size says. */
static int follow_calls(struct follower *f)
{
	const struct memory_code *c = f->code;
	struct x86_insn insn;
	int r = 0;

	for (uint32_t at = 0; at < c->n && r == 0; at += insn.len) {
		insn = x86_decode(c->code + at, c->n - at);
		f->now = insn.op == X86_CALL || insn.op == X86_CALL_FAR_AWAY ? f->usual
									     : (struct hotspot_frame){0};
		r = put(f, at);
		if (!insn.len)
			return r;
	}
	return r;
}

static int make_x86(struct memory_rows *ret, const struct memory_code *code, enum hotspot_code_kind kind,
		    uint32_t frame_bytes)
{
	_cleanup_(memory_rows_fini) struct memory_rows made = {0};
	struct follower f = {.rows = &made, .code = code, .kind = kind, .now = entry, .usual = entry};
	int r;

	if (frame_bytes >= 16)
		f.usual = (struct hotspot_frame){.depth = (int32_t)frame_bytes, .saved = 1};
	f.flags = kind == HOTSPOT_CODE_STUBS ? RULE_CHECKED : hotspot_is_freed(kind) ? RULE_COMPILED : 0;
	switch (kind) {
	case HOTSPOT_CODE_FRAMELESS:
		r = put(&f, 0);
		break;
	case HOTSPOT_CODE_CALLS:
		r = follow_calls(&f);
		break;
	default:
		if (kind == HOTSPOT_CODE_STUBS || kind == HOTSPOT_CODE_ADAPTERS)
			f.usual = entry;
		r = follow(&f);
	}
	if (r < 0)
		return r;
	*ret = made;
	made = (struct memory_rows){0};
	return 0;
}

int hotspot_rows_make(struct memory_rows *ret, const struct memory_code *code, enum hotspot_code_kind kind,
		      uint32_t frame_bytes)
{
	if (!code->n || code->n > MEMORY_CODE_MAX || frame_bytes > FRAME_MAX)
		return -EFBIG;
	if (kind == HOTSPOT_CODE_INTERPRETER)
		return hotspot_interpreter_rows(ret, code, frame_bytes, NULL, 0);
	switch (memory_rows_machine()) {
	case EM_X86_64:
		return make_x86(ret, code, kind, frame_bytes);
	case EM_AARCH64:
		return a64_hotspot_rows(ret, code, kind, frame_bytes);
	default:
		return -ENOTSUP;
	}
}
