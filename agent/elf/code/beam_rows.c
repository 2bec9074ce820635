// SPDX-License-Identifier: Apache-2.0
/*
 * The code is followed from its first byte to its last, several times: what a jump has brought to a place is
 * known when the place is reached, in the next round if the jump is behind it. Where an address of the code
 * is taken, a process goes on there when it has waited. Of places to which nothing leads that is seen, as
 * handlers of exceptions, nothing is known. In shared code, another piece begins there if the place is
 * aligned as pieces are; return addresses that its rows lead to are checked.
 */
#include "agent/elf/code/beam_rows.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/code/x86.h"

#define PROCESS_REGISTER 13  /* r13: the address of the Erlang process's structure */
#define RECORD_IN_PROCESS 96 /* where that has rbp; rsp is in front of it */

#define DWARF_FP 6
#define DWARF_SP 7
#define DEPTH_MAX (1 << 16) /* a frame has 1,024 words at most */
#define TARGETS_MAX 1024u
#define ROUNDS_MAX 4u
#define SHARED_ALIGN 8u
#define SKIPPED_MAX 8 /* bytes that a jump at the beginning skips */

/* Where the pointer of the Erlang process's stack is. */
enum place {
	IN_RSP,
	IN_RBP,	    /* rsp is that of the thread's stack */
	IN_PROCESS, /* the same, and the process's structure has it */
	ALIGNED,    /* no Erlang process runs: rsp is that of the thread's stack, aligned in a frame */
	ELSEWHERE   /* rsp is that of the thread's stack, and where the other one is is not known */
};

struct state {
	int32_t depth;	     /* bytes from the pointer to the CFA; 0: not known */
	int32_t kept;	     /* the same from rbp; 0: rbp has something else */
	int32_t stored;	     /* the same from what the process's structure has; 0: that is older */
	int32_t stored_kept; /* the same from what it has of rbp; 0: that is older */
	enum place place;
};

struct target {
	uint32_t off;
	struct state state;
};

struct follower {
	struct memory_rows *rows; /* NULL: this round is for targets only */
	const struct memory_code *code;
	const struct beam_callees *callees;
	enum beam_code kind;
	uint32_t before; /* bytes of shared code */
	struct state now;
	bool found;	/* a target that was not known before, in this round */
	uint32_t piece; /* where the last piece of shared code has begun */
	/* Of labels in the function that schedules processes, if no other piece has begun since. */
	struct state scheduler;
	size_t n_targets;
	struct target targets[TARGETS_MAX];
};

static const struct state entry = {.depth = 8}, entry_with_record = {.depth = 16, .kept = 16};

/* Where the C function that is called keeps the process's address while it runs: beam_callees. */
static int32_t saved_by_callee(const struct follower *f, const struct x86_insn *insn, uint32_t off)
{
	const uint64_t behind = f->code->va + off + insn->len;

	if (insn->op == X86_CALL)
		return f->callees->saved(f->callees->data, behind + (uint64_t)(int64_t)insn->disp, false);
	if (insn->op == X86_CALL_FAR_AWAY && insn->base == X86_IP)
		return f->callees->saved(f->callees->data, behind + (uint64_t)(int64_t)insn->disp, true);
	return 0;
}

/* Bytes from where what is called as a function begins; 0: that is not known, or too many. */
static int32_t behind_beginning(const struct follower *f, uint32_t off)
{
	const uint32_t n = off - (f->kind == BEAM_SHARED ? f->piece : f->before);

	return f->piece <= off && n <= INT16_MAX ? (int32_t)n : 0;
}

static struct elf_rule rule_in_process(const struct follower *f, const struct x86_insn *insn, uint32_t off)
{
	const bool is_call = insn->op == X86_CALL || insn->op == X86_CALL_FAR_AWAY;
	struct elf_rule rule = {.cfa_kind = CFA_KEPT,
				.cfa_reg = PROCESS_REGISTER,
				.cfa_off = f->rows && f->callees ? saved_by_callee(f, insn, off) : 0,
				.cfa_add = f->now.stored,
				.ra = {.kind = REG_CFA_OFF, .off = -8}};

	if (!rule.cfa_off && f->now.kept >= 16)
		rule.fp = (struct elf_reg_rule){.kind = REG_CFA_OFF, .off = -f->now.kept};
	else if (!rule.cfa_off && is_call)
		rule.fp.off = behind_beginning(f, off);
	return rule;
}

static struct elf_rule rule_of(const struct follower *f, const struct x86_insn *insn, uint32_t at)
{
	const struct state *s = &f->now;
	const bool by_fp = s->place == IN_RBP;
	const int32_t off = by_fp ? s->kept : s->depth;
	struct elf_rule rule = {.flags = f->kind == BEAM_SHARED ? RULE_CHECKED : 0};

	if (s->place == IN_PROCESS && s->stored >= 8)
		return rule_in_process(f, insn, at);
	if (s->place == ALIGNED)
		return (struct elf_rule){.cfa_kind = CFA_ALIGNED,
					 .cfa_reg = DWARF_SP,
					 .cfa_off = (s->depth & ~15) + 16, /* a caller's is aligned to 16 */
					 .ra = {.kind = REG_CFA_OFF, .off = -8}};
	if (off < 8 || s->place == ELSEWHERE || s->place == IN_PROCESS)
		return (struct elf_rule){.cfa_kind = CFA_NONE, .cfa_off = NO_RULE_REFUSED};
	rule.cfa_kind = CFA_REG_OFF; /* an unwinder may go from one stack to another */
	rule.cfa_reg = by_fp ? DWARF_FP : DWARF_SP;
	rule.cfa_off = off;
	rule.ra = (struct elf_reg_rule){.kind = REG_CFA_OFF, .off = -8};
	return rule;
}

static int put(struct follower *f, const struct x86_insn *insn, uint32_t off)
{
	const struct elf_rule rule = rule_of(f, insn, off);

	if (f->kind == BEAM_SHARED) /* rows of what comes before replace each other */
		off = off > f->before ? off - f->before : 0;
	return f->rows ? memory_rows_add(f->rows, off, &rule) : 0;
}

/* --- targets of jumps */

static struct target *target_at(struct follower *f, uint32_t off)
{
	for (size_t i = 0; i < f->n_targets; i++)
		if (f->targets[i].off == off)
			return &f->targets[i];
	return NULL;
}

static void note_target(struct follower *f, int64_t off, const struct state *s)
{
	if (off < 0 || off >= f->code->n || (!s->depth && s->place == IN_RSP) ||
	    target_at(f, (uint32_t)off) || f->n_targets == TARGETS_MAX)
		return;
	f->targets[f->n_targets++] = (struct target){(uint32_t)off, *s};
	f->found = true;
}

/*
 * An address of the code itself is where a process goes on that waits for a message or yields, with the stack
 * that it has there.
 */
static void note_address(struct follower *f, int64_t off)
{
	const struct state *s = &f->now;
	const int32_t depth = s->place == IN_RSP       ? s->depth
			      : s->place == IN_RBP     ? s->kept
			      : s->place == IN_PROCESS ? s->stored
						       : 0;

	if (f->kind == BEAM_FUNCTION)
		note_target(f, off,
			    &(struct state){.depth = depth, .kept = f->code->frame_pointer ? s->kept : 0});
}

/*
 * Whether the function that schedules processes begins there, which C code calls and which does not return:
 * it makes room for registers, and aligns the stack to 64 bytes.
 */
static bool schedules(const struct memory_code *c, uint32_t at)
{
	static const uint8_t sub[] = {0x48, 0x81, 0xec}, and[] = {0x48, 0x83, 0xe4, 0xc0};

	return c->n - at >= 11 && memcmp(c->code + at, sub, sizeof sub) == 0 &&
	       memcmp(c->code + at + 7, and, sizeof and) == 0;
}

/* What there is behind the end of the flow: `off` is reached from elsewhere. */
static void begin_at(struct follower *f, uint32_t off)
{
	const struct target *t = target_at(f, off);
	const bool begins = f->kind == BEAM_SHARED &&
			    ((f->code->va + off) % SHARED_ALIGN == 0 || schedules(f->code, off));

	if (begins) {
		f->piece = off;
		f->scheduler = (struct state){0};
	}
	f->now = t ? t->state : begins ? entry : f->scheduler;
}

/* --- instructions */

static void set_depth(struct state *s, int64_t depth)
{
	s->depth = s->depth && depth >= 8 && depth <= DEPTH_MAX ? (int32_t)depth : 0;
}

/* rsp was moved by so many bytes; on the thread's stack, that does not matter. */
static void moved(struct follower *f, int64_t up)
{
	struct state *s = &f->now;

	if (s->place != IN_RSP)
		return;
	set_depth(s, s->depth - up);
}

/* rsp has another value than a sum with itself. */
static void set_sp(struct follower *f, const struct x86_insn *insn)
{
	struct state *s = &f->now;
	const bool loads = insn->op == X86_LOAD;

	if (insn->op == X86_MOVE && insn->base == X86_BP) { /* back again */
		*s = (struct state){.depth = s->kept, .kept = s->kept};
	} else if ((insn->op == X86_LEA || loads) && insn->base == X86_BX) { /* the thread's own data */
		s->place = s->depth && s->stored == s->depth ? IN_PROCESS : s->kept ? IN_RBP : ELSEWHERE;
	} else if (loads && s->place != IN_RSP && s->place != ALIGNED) { /* back again: the process has it */
		s->place = IN_RSP;
		s->stored = 0;
	} else {
		*s = (struct state){0};
	}
}

static bool sets(const struct x86_insn *insn, uint8_t reg)
{
	const bool has_reg = insn->op == X86_ADD || insn->op == X86_AND || insn->op == X86_MOVE ||
			     insn->op == X86_LEA || insn->op == X86_LOAD;

	return (has_reg && insn->reg == reg) || insn->writes & 1u << reg;
}

static void set_fp(struct follower *f, const struct x86_insn *insn)
{
	struct state *s = &f->now;

	if (insn->op == X86_LOAD && insn->base == PROCESS_REGISTER && insn->disp == RECORD_IN_PROCESS)
		s->kept = s->place == IN_RSP ? s->stored_kept : 0; /* the record that was stored with rsp */
	else
		s->kept = insn->op == X86_MOVE && insn->base == X86_SP && s->place == IN_RSP ? s->depth : 0;
	if (s->place == IN_RBP && !s->kept)
		s->place = ELSEWHERE;
}

/*
 * Instructions that store rsp with the process, at 88, by itself or behind the pointer of the heap, and how
 * many bytes of them come before the one that stores.
 */
static const struct {
	uint8_t n, before;
	bool record; /* rbp is stored, too */
	uint8_t code[24];
} stores[] = {
	/* mov [r13 + 88], rsp */
	{4, 0, false, {0x49, 0x89, 0x65, 0x58}},
	/* movq xmm0, r15; movq xmm1, rsp; punpcklqdq xmm0, xmm1; movups [r13 + 80], xmm0 */
	{19,
	 14,
	 false,
	 {0x66, 0x49, 0x0f, 0x6e, 0xc7, 0x66, 0x48, 0x0f, 0x6e, 0xcc, 0x66, 0x0f, 0x6c, 0xc1, 0x41, 0x0f,
	  0x11, 0x45, 0x50}},
	/* with rbp: movq xmm0, rsp; movq xmm1, rbp; punpcklqdq xmm0, xmm1; movups [r13 + 88], xmm0 */
	{19,
	 14,
	 true,
	 {0x66, 0x48, 0x0f, 0x6e, 0xc4, 0x66, 0x48, 0x0f, 0x6e, 0xcd, 0x66, 0x0f, 0x6c, 0xc1, 0x41, 0x0f,
	  0x11, 0x45, 0x58}},
	/* vmovq xmm1, rsp; vpinsrq xmm0, xmm1, rbp, 1; vmovdqu [r13 + 88], xmm0 */
	{17,
	 11,
	 true,
	 {0xc4, 0xe1, 0xf9, 0x6e, 0xcc, 0xc4, 0xe3, 0xf1, 0x22, 0xc5, 0x01, 0xc4, 0xc1, 0x7a, 0x7f, 0x45,
	  0x58}},
	/* vmovq xmm1, r15; vpinsrq xmm0, xmm1, rsp, 1; vmovdqu [r13 + 80], xmm0 */
	{17,
	 11,
	 false,
	 {0xc4, 0xc1, 0xf9, 0x6e, 0xcf, 0xc4, 0xe3, 0xf1, 0x22, 0xc4, 0x01, 0xc4, 0xc1, 0x7a, 0x7f, 0x45,
	  0x50}},
};

/* If the instruction at `at` is one of them. */
static void note_stored(struct follower *f, uint32_t at)
{
	const struct memory_code *c = f->code;
	struct state *s = &f->now;

	for (size_t i = 0; s->place == IN_RSP && i < sizeof stores / sizeof stores[0]; i++) {
		if (at < stores[i].before || c->n - at < (uint32_t)(stores[i].n - stores[i].before) ||
		    memcmp(c->code + at - stores[i].before, stores[i].code, stores[i].n) != 0)
			continue;
		s->stored = s->depth;
		s->stored_kept = stores[i].record ? s->kept : 0;
		return;
	}
}

/* What a call of Erlang's own code leaves. */
static void called(struct follower *f)
{
	struct state *s = &f->now;

	if (s->place != IN_RSP)
		return;
	s->stored = s->stored_kept = 0;
	if (!f->code->frame_pointer)
		s->kept = 0;
}

/* A piece that leaves a record which it has not made begins with one, which its caller has made. */
static void leave(struct follower *f)
{
	struct state *s = &f->now;

	if (f->kind == BEAM_SHARED && f->code->frame_pointer && s->place == IN_RSP && !s->kept &&
	    s->depth == 8)
		note_target(f, f->piece, &entry_with_record);
	*s = (struct state){.depth = s->kept > 8 ? s->kept - 8 : 0};
}

static void apply(struct follower *f, const struct x86_insn *insn)
{
	if (f->now.place == ALIGNED && !sets(insn, X86_SP))
		return;
	if (sets(insn, PROCESS_REGISTER)) /* it is another process */
		f->now = (struct state){.place = f->now.place == IN_RSP ? IN_RSP : ELSEWHERE};
	switch (insn->op) {
	case X86_PUSH:
		moved(f, -8);
		return;
	case X86_POP:
		moved(f, 8);
		if (insn->reg != X86_BP)
			return;
		break;
	case X86_CALL:
	case X86_CALL_FAR_AWAY:
		called(f);
		return;
	case X86_LEAVE:
		leave(f);
		return;
	default:
		break;
	}
	if (sets(insn, X86_BP))
		set_fp(f, insn);
	if (insn->op == X86_POP || !sets(insn, X86_SP))
		return;
	if (insn->op == X86_AND && f->kind == BEAM_SHARED && insn->disp == -64 && f->now.depth > 8)
		f->now = f->scheduler = (struct state){.depth = f->now.depth, .place = ALIGNED};
	else if (insn->op == X86_ADD)
		moved(f, insn->disp);
	else if (insn->op == X86_LEA && insn->base == X86_SP)
		moved(f, insn->disp);
	else
		set_sp(f, insn);
}

static bool ends_flow(uint8_t op)
{
	return op == X86_RETURN || op == X86_JUMP || op == X86_JUMP_FAR_AWAY || op == X86_TRAP;
}

/*
 * Where code goes on behind a jump or return that ends at `at`: in shared code, behind padding. A function
 * begins with a jump over a call that a debugger makes of it, which is not aligned with what follows.
 */
static uint32_t behind_end(const struct follower *f, const struct x86_insn *insn, uint32_t at)
{
	if (f->kind == BEAM_SHARED)
		return x86_padding(f->code->code, f->code->n, at);
	return insn->op == X86_JUMP && insn->disp > 0 && insn->disp <= SKIPPED_MAX ? at + (uint32_t)insn->disp
										   : at;
}

/* Bytes that are no instruction: nothing is known up to the next place that is. */
static int skip(struct follower *f, uint32_t *at)
{
	int r;

	f->now = (struct state){0};
	r = put(f, &(struct x86_insn){0}, *at);
	*at += f->kind == BEAM_SHARED ? SHARED_ALIGN - (uint32_t)((f->code->va + *at) % SHARED_ALIGN) : 1;
	return r;
}

static int follow(struct follower *f, uint32_t from)
{
	const struct memory_code *c = f->code;
	bool ended = false, was_call = false;
	uint32_t at = from;
	int r = 0;

	f->scheduler = (struct state){0};
	f->piece = f->kind == BEAM_SHARED ? UINT32_MAX : 0;
	f->now = f->kind == BEAM_SHARED ? (struct state){0} : entry; /* shared code may begin in the middle */
	while (at < c->n && r == 0) {
		const struct target *t = target_at(f, at);
		struct x86_insn insn;

		if (ended)
			begin_at(f, at);
		else if (t &&
			 (was_call || t->state.place == ALIGNED || (!f->now.depth && f->now.place == IN_RSP)))
			f->now = t->state; /* calls that raise an error do not return */
		x86_read(&insn, c->code + at, c->n - at);
		if (!insn.len) {
			r = skip(f, &at);
			ended = true;
			continue;
		}
		r = put(f, &insn, at);
		if (insn.op == X86_JUMP || insn.op == X86_BRANCH)
			note_target(f, (int64_t)at + insn.len + insn.disp, &f->now);
		if (insn.op == X86_ADDRESS)
			note_address(f, (int64_t)at + insn.len + insn.disp);
		note_stored(f, at);
		apply(f, &insn);
		at += insn.len;
		was_call = insn.op == X86_CALL || insn.op == X86_CALL_FAR_AWAY;
		ended = ends_flow(insn.op);
		if (ended)
			at = behind_end(f, &insn, at);
	}
	return r;
}

/* All rounds but the last are for the targets. */
static int follow_all(struct follower *f, struct memory_rows *rows, uint32_t from)
{
	int r = 0;

	for (unsigned round = 1; round < ROUNDS_MAX && r == 0; round++) {
		f->found = false;
		r = follow(f, from);
		if (!f->found)
			break;
	}
	f->rows = rows;
	f->now = entry;
	if (r == 0 && from && f->kind == BEAM_FUNCTION)
		r = put(f, &(struct x86_insn){0},
			0); /* what is in front of a function's code is called as one */
	return r == 0 ? follow(f, from) : r;
}

int beam_rows_make(struct memory_rows *ret, const struct memory_code *code, enum beam_code kind,
		   uint32_t info, const struct beam_callees *callees)
{
	static const struct elf_rule outermost = {
		.cfa_kind = CFA_UNDEFINED, .cfa_reg = RULE_NO_REG, .ra = {.kind = REG_UNDEFINED}};
	_cleanup_(memory_rows_fini) struct memory_rows made = {0};
	struct follower f = {.code = code, .callees = callees, .kind = kind, .before = info};
	int r;

	if (memory_rows_machine() != EM_X86_64)
		return -ENOTSUP;
	if (!code->n || info >= code->n || code->n - (kind == BEAM_SHARED ? info : 0) > MEMORY_CODE_MAX)
		return -EFBIG;
	if (kind == BEAM_EXIT)
		r = memory_rows_add(&made, 0, &outermost);
	else
		r = follow_all(&f, &made, kind == BEAM_FUNCTION ? info : 0);
	if (r < 0)
		return r;
	*ret = made;
	made = (struct memory_rows){0};
	return 0;
}
