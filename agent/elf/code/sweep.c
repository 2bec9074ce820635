// SPDX-License-Identifier: Apache-2.0
/*
 * From the entry of a function, where rsp is 8 below the CFA, every path through it is followed (flow.h).
 *
 * Functions are known by symbols, by the entry point, and because functions that are known call them. Other
 * addresses are guesses: pointers in data and code, aligned addresses behind padding, and what follows an
 * instruction that does not continue. Rows for a guess are written only if it is proven: a path must end in a
 * `ret`, or in a jump to another function, with rsp and rbp as at entry. If the guess were wrong by any
 * number of bytes, the `ret` would not fit.
 *
 * In every function, paths that meet must agree, and all bytes on them must be instructions. Some steps from
 * one instruction to another are assumptions: that a call returns, that a table of jumps has this many
 * entries, that code to which no path leads belongs to the cases of a jump whose table is not found. They are
 * made when there is nothing else to do. When a path that rests on one contradicts another path, the
 * assumption is dropped, and the function is followed anew. A contradiction that rests on none discards the
 * function's rows.
 */
#include "agent/elf/code/sweep.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/elf/code/assumptions.h"
#include "agent/elf/code/ends.h"
#include "agent/elf/code/extent.h"
#include "agent/elf/code/flow.h"
#include "agent/elf/code/jump_table.h"
#include "agent/elf/code/returns.h"
#include "agent/elf/code/starts.h"
#include "agent/elf/code/states.h"
#include "agent/elf/code/tail_jump.h"
#include "agent/elf/code/x86.h"
#include "agent/elf/file/elf_image.h"

#define ENTRY_ALIGN 16
#define BEST_ALIGN 64 /* of functions that are compiled at run time */
#define CALLEES 4096u
/* Calls that must be proven to return before others of the function are thought to; per contradiction */
#define RETURNED_MIN 3u
#define CONTRADICTED_WEIGHT 16u
/* Times that a function is followed: a wrong guess contradicts whatever is assumed. */
#define TRIES_KNOWN 64
#define TRIES_GUESS 2
#define BEHIND_BYTES 256 /* behind the last known instruction, in which more of the function may be */
#define ROUNDS_MAX 4
#define STEPS 512u	   /* that are remembered; a power of two */
#define MEETINGS 256u	   /* the same */
#define ENLARGING_INSNS 16 /* of a function like alloca, up to where it does what it is for */
/* Instructions that are followed: a file can be made so that each function leads through all others. */
#define BUDGET_PER_BYTE 16
#define CLOCK_EVERY 4096u /* of these, the clock is read; a power of two */

enum {
	QUEUED = 1,
	ACCEPTED = 2,
	DENIED = 4,
	START = 8,
	COVERED = 16,
	FAILED = 32,
	TRIED = 64,
	CLAIMED = 128
};

/* State of an offset at which an instruction begins. */
struct place {
	uint32_t state;	     /* index in states[]; NO_STATE: no path has come here */
	uint16_t assumption; /* on which the path rests: index in assumptions[] + 1; 0: none */
	uint8_t len;	     /* length of the instruction */
	/*
	 * COVERED: another source describes the byte; FAILED: as the entry of a function; TRIED: in a
	 * function that has no rows; CLAIMED: the same, and no other begins there
	 */
	uint8_t flags;
};

/* A function in another piece: how many calls of it are proven to return, and how many contradicted that. */
struct callee {
	uint64_t va;
	uint32_t returned, contradicted;
};

/* What an instruction does to a state. */
struct known_step {
	uint32_t state; /* before it; NO_STATE: the entry is empty */
	uint32_t what, disp, writes;
	uint32_t behind;
};

/* What is true where paths with two states meet. */
struct known_meeting {
	uint32_t a, b; /* the states; NO_STATE: the entry is empty */
	uint32_t both;
};

struct offsets {
	uint32_t *v;
	size_t n, cap;
};

struct code_sweep {
	struct code_piece piece;
	struct code_returns returns;
	struct place *places;
	struct code_states states;
	struct known_step steps[STEPS]; /* found out before, by their hash */
	struct known_meeting meetings[MEETINGS];
	struct offsets known, pointers; /* to be followed */
	bool no_memory;
	uint64_t budget;	/* instructions that may still be followed; 0 when the time is over, too */
	struct callee *callees; /* owned; by the hash of their addresses; NULL: there is no other piece */
	bool again;		/* a function begins in what was taken for the middle of another */
	/* the function that is followed */
	uint32_t entry, end;	     /* `end`: behind its last instruction so far */
	bool known_entry;	     /* it certainly begins there */
	struct offsets queue, trail; /* offsets to follow; all that belong to it */
	struct offsets calls, loads; /* functions that it calls, addresses that it loads */
	struct code_assumptions assumptions;
	uint32_t unresolved; /* state of a jump whose targets are not known, or NO_STATE */
	bool left;	     /* a path ends as it must */
	bool inside;	     /* it is entered with the frame of one that it ends */
	bool doubts;	     /* that calls of functions that do return come back to this one */
	size_t n_calls;	     /* of any function */
	bool conflict;
	uint16_t blamed;
	struct jump_context context;
};

void code_sweep_free(struct code_sweep *s)
{
	if (!s)
		return;

	struct offsets *lists[] = {&s->known, &s->pointers, &s->queue, &s->trail, &s->calls, &s->loads};

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		free(lists[i]->v);
	code_returns_fini(&s->returns);
	free(s->places);
	free(s->callees);
	code_states_fini(&s->states);
	code_assumptions_fini(&s->assumptions);
	free(s);
}

static void offsets_add(struct code_sweep *s, struct offsets *o, uint32_t off)
{
	if (o->n == o->cap && array_reserve(&o->v, &o->cap, o->n + 1, sizeof *o->v) < 0)
		s->no_memory = true;
	else
		o->v[o->n++] = off;
}

static uint32_t state_add(struct code_sweep *s, const struct flow_state *state)
{
	const uint32_t number = code_states_add(&s->states, state);

	s->no_memory |= number == NO_STATE;
	return number;
}

/* --- one function */

static bool is_start(const struct code_sweep *s, uint32_t off)
{
	return s->places[off].flags & START;
}

static bool is_covered(const struct code_sweep *s, uint32_t off)
{
	return s->places[off].flags & COVERED;
}

static void contradict(struct code_sweep *s, uint16_t assumption)
{
	s->conflict = true;
	s->blamed = assumption;
}

/*
 * Assumes that execution comes from `from` to `to`. `likely`: there is no more doubt in `to` than in `from`,
 * unless another path contradicts.
 */
static void assume(struct code_sweep *s, uint32_t from, uint32_t to, uint32_t state, bool weak, bool likely)
{
	const struct code_assumption one = {
		.from = from, .to = to, .state = state, .before = s->places[from].assumption, .weak = weak};

	if (!(s->places[from].flags & DENIED) && code_assumptions_add(&s->assumptions, one, likely) < 0)
		s->no_memory = true;
}

static void enqueue(struct code_sweep *s, uint32_t off)
{
	if (s->places[off].flags & QUEUED)
		return;
	s->places[off].flags |= QUEUED;
	offsets_add(s, &s->queue, off);
}

/* A path ends as it must. */
static void leave(struct code_sweep *s, uint16_t assumption)
{
	s->left |= !code_assumptions_is_weak(&s->assumptions, assumption);
	code_assumptions_prove(&s->assumptions, assumption);
}

/* The index of what is true in both states; NO_STATE: they contradict each other. */
static uint32_t meeting(struct code_sweep *s, uint32_t a, uint32_t b)
{
	const uint32_t h = a * 0x9e3779b1u ^ b * 0x85ebca6bu;
	struct known_meeting *known = &s->meetings[(h ^ h >> 15) % MEETINGS];
	struct flow_state both;
	bool changed;

	if (known->a == a && known->b == b)
		return known->both;
	both = s->states.v[a];
	*known = (struct known_meeting){a, b, NO_STATE};
	if (flow_meet(&both, &s->states.v[b], &changed))
		known->both = changed ? state_add(s, &both) : a;
	return known->both;
}

/* A path comes to `off`, where another has come before. */
static __attribute__((noinline)) void meet(struct code_sweep *s, uint32_t off, uint32_t state,
					   uint16_t assumption)
{
	struct place *p = &s->places[off];
	uint32_t met;

	if (p->state == state)
		code_assumptions_equate(&s->assumptions, assumption, p->assumption);
	if (p->state == state || p->state == LOST_STATE)
		return;
	if (state == LOST_STATE) {
		p->state = LOST_STATE;
		enqueue(s, off);
		return;
	}
	met = meeting(s, p->state, state);
	if (met == NO_STATE) {
		contradict(s, assumption ?: p->assumption);
		return;
	}
	code_assumptions_equate(&s->assumptions, assumption, p->assumption);
	if (met != p->state) {
		p->state = met;
		enqueue(s, off);
	}
}

/* A path comes to `off` in code that an accepted function has, too. */
static void share(struct code_sweep *s, uint32_t off, uint32_t state, uint16_t assumption, bool jumps)
{
	const struct place *p = &s->places[off];

	if (state == LOST_STATE || p->state == LOST_STATE)
		return;
	if (!code_states_same_rule(&s->states, p->state, state))
		contradict(s, assumption);
	else if (jumps)
		leave(s, assumption);
}

/*
 * A path comes to `off` with the state of this index. `jumps`: it jumps there. That code runs into other code
 * proves nothing: so does a guess in the middle of an instruction, with the padding behind it.
 */
static inline void arrive(struct code_sweep *s, uint32_t off, uint32_t state, uint16_t assumption, bool jumps)
{
	struct place *p = &s->places[off];

	if (p->flags & ACCEPTED) {
		share(s, off, state, assumption, jumps);
	} else if (p->state != NO_STATE) {
		if (p->state != state || p->assumption != assumption)
			meet(s, off, state, assumption);
	} else { /* nearly always */
		p->state = state;
		p->assumption = assumption;
		offsets_add(s, &s->trail, off);
		enqueue(s, off);
	}
}

/* Whether the code at this offset belongs to another piece of the same code. */
static bool is_elsewhere(const struct code_sweep *s, int64_t off)
{
	const struct code_piece *p = &s->piece;

	return (off < 0 && (uint64_t)-off <= p->before) || (off >= p->n && (uint64_t)off - p->n < p->behind);
}

/* Whether a function begins at this offset, which may be outside of the piece. */
static bool is_certain_start(const struct code_sweep *s, int64_t off)
{
	const struct code_start *start =
		s->piece.starts ? code_starts_at(s->piece.starts, s->piece.va + (uint64_t)off) : NULL;

	return start && start->certain;
}

/*
 * Whether the jump at this offset, which leaves the code, may lead to code that works for the frame of this
 * function: runtimes share among all functions what is rarely needed, to yield or to raise an error (Erlang).
 */
static bool may_share_code(const struct code_sweep *s, uint32_t off)
{
	return s->piece.generated && s->known_entry &&
	       x86_decode(s->piece.code + off, s->piece.n - off).op == X86_BRANCH;
}

/*
 * Goes on at `target`, by a jump or behind the instruction. Outside of the code, and at the start of a
 * function, a jump is a tail call. In another piece, it may as well lead to a part of this function that the
 * compiler has moved away.
 */
static inline void go(struct code_sweep *s, uint32_t off, int64_t target, uint32_t state, bool jumps)
{
	const uint16_t assumption = s->places[off].assumption;
	const bool inside = target >= 0 && target < s->piece.n;

	if (inside && !is_covered(s, (uint32_t)target) &&
	    (target == s->entry || !is_start(s, (uint32_t)target)))
		arrive(s, (uint32_t)target, state, assumption, jumps);
	else if (state == LOST_STATE || (is_elsewhere(s, target) && !is_certain_start(s, target)))
		return;
	else if (flow_at_entry(&s->states.v[state])) {
		if (jumps)
			leave(s, assumption);
	} else if (inside || !jumps || !may_share_code(s, off)) {
		contradict(s, assumption);
	}
}

/* Behind a loop that touches each page of a large frame: cmp reg, rsp; jne. */
static bool note_equal(const struct code_sweep *s, uint32_t off, struct flow_state *state)
{
	const uint8_t *code = s->piece.code + off;
	uint8_t a, b, other;

	if (jump_context_before(&s->context) != 3 || off < 3 ||
	    !(code[0] == 0x75 || (code[0] == 0x0f && code[1] == 0x85)) || (code[-3] & 0xf8) != 0x48 ||
	    code[-2] != 0x39 || code[-1] >> 6 != 3)
		return false;
	a = (uint8_t)((code[-1] >> 3 & 7) | (code[-3] & 4) << 1);
	b = (uint8_t)((code[-1] & 7) | (code[-3] & 1) << 3);
	other = a == X86_SP ? b : a;
	if ((a != X86_SP && b != X86_SP) || !(state->known >> other & 1))
		return false;
	state->known |= 1u << X86_SP;
	state->reg[X86_SP] = state->reg[other];
	return true;
}

/* The index of the state behind an instruction that has an effect on the one of this index. */
static uint32_t step(struct code_sweep *s, uint32_t index, const struct x86_insn *insn)
{
	const bool calls = insn->op == X86_CALL || insn->op == X86_CALL_FAR_AWAY;
	const uint32_t disp = calls ? 0 : (uint32_t)insn->disp;
	const uint32_t what = insn->op | (uint32_t)insn->reg << 8 | (uint32_t)insn->base << 16;
	const uint32_t h = (index * 0x9e3779b1u ^ what * 0x85ebca6bu ^ disp * 0xc2b2ae35u) + insn->writes;
	struct known_step *known = &s->steps[(h ^ h >> 15) % STEPS];
	struct flow_state state;

	if (known->state == index && known->what == what && known->disp == disp &&
	    known->writes == insn->writes)
		return known->behind;
	state = s->states.v[index];
	*known = (struct known_step){index, what, disp, insn->writes, LOST_STATE};
	if (flow_step(&state, insn))
		known->behind = state_add(s, &state);
	return known->behind;
}

/* The index of the state behind a conditional jump. */
static __attribute__((noinline)) uint32_t behind_branch(struct code_sweep *s, uint32_t off, uint32_t index)
{
	struct flow_state state;

	if (off < 2 || s->piece.code[off - 2] != 0x39)
		return index;
	state = s->states.v[index];
	return note_equal(s, off, &state) ? state_add(s, &state) : index;
}

/* The index of the state behind the instruction. */
static inline uint32_t state_behind(struct code_sweep *s, uint32_t off, const struct x86_insn *insn)
{
	const uint32_t index = s->places[off].state;

	if (index == LOST_STATE)
		return LOST_STATE;
	if (insn->op == X86_BRANCH)
		return behind_branch(s, off, index);
	return flow_ignores(&s->states.v[index], insn) ? index : step(s, index, insn);
}

/*
 * Whether the stack pointer moves over as many arguments as only the caller knows. The return address, which
 * was popped, is pushed again behind that: V8.
 */
static bool drops_arguments(const struct code_sweep *s, uint32_t off)
{
	const uint32_t state = s->places[off].state;

	return !s->known_entry && state != LOST_STATE && s->states.v[state].taken_to;
}

/* Continues behind the instruction. */
static void go_on(struct code_sweep *s, uint32_t off, const struct x86_insn *insn)
{
	const uint32_t next = off + insn->len, state = state_behind(s, off, insn);

	if (state == LOST_STATE && (s->piece.generated || drops_arguments(s, off)))
		return;
	if ((state == LOST_STATE && !s->known_entry) || (state != LOST_STATE && next >= s->piece.n))
		contradict(s, s->places[off].assumption);
	else if (next < s->piece.n)
		go(s, off, next, state, false);
}

static bool begins_like_a_function(const struct code_sweep *s, uint32_t off)
{
	return x86_begins_function(s->piece.code + off, s->piece.n - off);
}

/* Whether a function seems to begin at this offset behind padding: a pointer leads there, or by its code. */
static bool seems_to_begin(const struct code_sweep *s, uint32_t off)
{
	const uint64_t va = s->piece.va + off;

	return va % ENTRY_ALIGN == 0 &&
	       ((s->piece.starts && code_starts_at(s->piece.starts, va)) || begins_like_a_function(s, off));
}

/* Whether the code behind a call is that of another function. */
static bool ends_behind(const struct code_sweep *s, uint32_t next)
{
	uint32_t padded;

	if (next >= s->piece.n || is_start(s, next) || is_covered(s, next))
		return true;
	padded = x86_padding(s->piece.code, s->piece.n, next);
	return padded == s->piece.n ||
	       (padded > next && (is_start(s, padded) || is_covered(s, padded) || seems_to_begin(s, padded)));
}

/* Whether there is padding up to where a function may begin. */
static bool is_before_padding(const struct code_sweep *s, uint32_t off)
{
	const uint32_t padded = x86_padding(s->piece.code, s->piece.n, off);

	return padded > off && (s->piece.va + padded) % ENTRY_ALIGN == 0;
}

/* Behind a call of which it is not known whether it returns. `likely`: nearly all of its kind do. */
static void go_on_perhaps(struct code_sweep *s, uint32_t off, const struct x86_insn *insn, bool likely)
{
	const uint32_t next = off + insn->len;
	uint32_t state;

	if (ends_behind(s, next))
		return;
	state = state_behind(s, off, insn);
	if (state == LOST_STATE && !s->known_entry)
		contradict(s, s->places[off].assumption);
	else
		assume(s, off, next, state, is_before_padding(s, next), likely && !seems_to_begin(s, next));
}

/*
 * Whether the function at this offset enlarges the frame of its caller, as alloca in assembly does: it pops
 * its return address, and then subtracts from the stack pointer what it got as an argument.
 */
static bool enlarges_frame(const struct code_sweep *s, uint32_t off)
{
	struct flow_state state = flow_entry();

	for (int i = 0; i < ENLARGING_INSNS && off < s->piece.n; i++) {
		const struct x86_insn insn = x86_decode(s->piece.code + off, s->piece.n - off);
		const bool popped = state.reg[X86_SP] == 0;

		switch (insn.op) {
		case X86_OTHER:
		case X86_AND:
			if (popped && (insn.writes & 1u << X86_SP || insn.reg == X86_SP))
				return true;
			break;
		case X86_POP:
		case X86_MOVE:
		case X86_LEA:
		case X86_LOAD:
		case X86_ADD:
		case X86_CONSTANT:
		case X86_COMPARE:
		case X86_BRANCH:
			break;
		default:
			return false;
		}
		if (!insn.len || (!flow_ignores(&state, &insn) && !flow_step(&state, &insn)) ||
		    !(state.known & 1u << X86_SP))
			return false;
		off += insn.len;
	}
	return false;
}

static struct callee *callee_at(struct code_sweep *s, int64_t off)
{
	const uint64_t va = s->piece.va + (uint64_t)off;
	struct callee *c = &s->callees[(va >> 4 ^ va >> 14) % CALLEES];

	if (c->va != va)
		*c = (struct callee){.va = va};
	return c;
}

/* Whether a call of the function at this offset, which is not in the piece, is likely to return. */
static bool returns_likely(struct code_sweep *s, int64_t off)
{
	const struct callee *c;

	if (!is_elsewhere(s, off))
		return true;
	c = callee_at(s, off);
	return c->returned >= RETURNED_MIN && c->contradicted <= c->returned / CONTRADICTED_WEIGHT;
}

/* Notes whether the call on which this assumption rests returns, if it leads to another piece. */
static void note_callee(struct code_sweep *s, size_t assumption, bool returned)
{
	const uint32_t from = s->assumptions.v[assumption].from;
	const struct x86_insn insn = x86_decode(s->piece.code + from, s->piece.n - from);
	const int64_t target = (int64_t)from + insn.len + insn.disp;
	struct callee *c;

	if (insn.op != X86_CALL || !is_elsewhere(s, target))
		return;
	c = callee_at(s, target);
	c->returned += returned;
	c->contradicted += !returned;
}

static void call(struct code_sweep *s, uint32_t off, struct x86_insn insn)
{
	const int64_t target = (int64_t)off + insn.len + insn.disp;
	const bool inside = target >= 0 && target < s->piece.n;

	s->n_calls++;
	if (insn.disp == 0) { /* it only pushes its own address */
		insn = (struct x86_insn){.len = insn.len, .op = X86_PUSH, .reg = X86_NO_REG};
		go_on(s, off, &insn);
		return;
	}
	if (inside)
		offsets_add(s, &s->calls, (uint32_t)target);
	else
		insn.op = X86_CALL_FAR_AWAY;
	if (insn.op == X86_CALL && enlarges_frame(s, (uint32_t)target))
		insn = (struct x86_insn){.len = insn.len, .op = X86_OTHER, .writes = 1u << X86_SP};
	switch (code_returns(&s->returns, target)) {
	case RETURNS_NEVER:
		break;
	case RETURNS_SURELY:
		if (ends_behind(s, off + insn.len))
			break;
		if (!s->doubts && (s->known_entry || !is_before_padding(s, off + insn.len)))
			go_on(s, off, &insn);
		else
			go_on_perhaps(s, off, &insn, true);
		break;
	case RETURNS_PERHAPS:
		go_on_perhaps(s, off, &insn, !inside && returns_likely(s, target));
	}
}

/* A jump through a register or memory: a table, a tail call, or something else. */
static void jump_away(struct code_sweep *s, uint32_t off, const struct x86_insn *insn)
{
	const uint32_t state = s->places[off].state;
	uint64_t targets[JUMP_TABLE_MAX];
	bool bounded = false;
	uint32_t n = 0;

	if (code_returns_slot(&s->returns, off, insn) == RETURNS_NEVER)
		return;
	if (s->piece.img)
		n = jump_table_read(&s->piece, &s->context, targets, &bounded);
	for (uint32_t i = 0; i < n; i++)
		if (!is_covered(s, (uint32_t)(targets[i] - s->piece.va)))
			assume(s, off, (uint32_t)(targets[i] - s->piece.va), state, false, bounded);
	if (insn->base == X86_IP && flow_at_entry(&s->states.v[state]))
		leave(s, s->places[off].assumption);
	else if (!n && state != LOST_STATE && !flow_at_entry(&s->states.v[state]))
		s->unresolved = state;
}

static void note_address(struct code_sweep *s, uint32_t off, const struct x86_insn *insn)
{
	const uint64_t va = insn->op == X86_ADDRESS
				    ? s->piece.va + off + insn->len + (uint64_t)(int64_t)insn->disp
				    : (uint64_t)insn->disp;

	if (insn->op == X86_ADDRESS && insn->reg < X86_REGS)
		s->context.loaded[insn->reg] = va;
	if (insn->op == X86_CONSTANT && (!s->piece.img || elf_image_type(s->piece.img) != ET_EXEC))
		return; /* some number */
	if (va - s->piece.va < s->piece.n)
		offsets_add(s, &s->loads, (uint32_t)(va - s->piece.va));
}

/*
 * Whether a `ret` drops a number of words: arguments. No function drops others, but in bytes that are none of
 * an instruction's, any number is likely.
 */
static bool drops_words(const uint8_t *code, unsigned len)
{
	return len < 3 || code[len - 3] != 0xc2 || !(code[len - 2] & 7);
}

static void follow(struct code_sweep *s, uint32_t off)
{
	struct place *p = &s->places[off];
	const struct x86_insn insn = x86_decode(s->piece.code + off, s->piece.n - off);
	const int64_t target = (int64_t)off + insn.len + insn.disp;

	p->len = insn.len;
	/* a signal trampoline has the kernel's frame */
	if (!insn.len || (insn.op == X86_CONSTANT && x86_sigreturn(s->piece.code + off, s->piece.n - off))) {
		if (p->state != LOST_STATE)
			contradict(s, p->assumption);
		return;
	}
	s->end = off + insn.len > s->end ? off + insn.len : s->end;
	/* behind a call, it may be one that was made there */
	if (s->known_entry && !s->inside && !s->piece.generated && p->state != LOST_STATE && !p->assumption &&
	    flow_gives_up_others(&s->states.v[p->state], &insn)) {
		s->inside = true;
		contradict(s, 0);
		return;
	}
	jump_context_add(&s->context, off, insn.len);
	switch (insn.op) {
	case X86_RETURN:
		if (!drops_words(s->piece.code + off, insn.len))
			contradict(s, p->assumption);
		else if (flow_at_entry(&s->states.v[p->state]))
			leave(s, p->assumption);
		else if (p->state != LOST_STATE)
			contradict(s, p->assumption);
		return;
	case X86_JUMP:
		go(s, off, target, p->state, true);
		return;
	case X86_TRAP:
		return;
	case X86_JUMP_FAR_AWAY:
		jump_away(s, off, &insn);
		return;
	case X86_CALL:
		call(s, off, insn);
		return;
	case X86_CALL_FAR_AWAY:
		if (insn.len == 2 && s->piece.code[off] == 0x0f) /* a system call */
			break;
		s->n_calls++;
		if (code_returns_slot(&s->returns, off, &insn) != RETURNS_NEVER)
			go_on_perhaps(s, off, &insn, true);
		return;
	case X86_BRANCH:
		go(s, off, target, p->state, true);
		break;
	case X86_ADDRESS:
	case X86_CONSTANT:
		note_address(s, off, &insn);
		break;
	default:
		break;
	}
	if (!s->conflict)
		go_on(s, off, &insn);
}

/* Makes the next assumption. An assumption that contradicts what is known is left out. */
static void try_assumption(struct code_sweep *s)
{
	const size_t i = s->assumptions.next++;
	const struct code_assumption a = s->assumptions.v[i];
	const struct place *p = &s->places[a.to];
	bool changed;

	if (s->places[a.from].flags & DENIED)
		return;
	if (p->state != NO_STATE && p->state != LOST_STATE && a.state != LOST_STATE) {
		struct flow_state both = s->states.v[p->state];

		if (p->flags & ACCEPTED ? !code_states_same_rule(&s->states, p->state, a.state)
					: !flow_meet(&both, &s->states.v[a.state], &changed))
			return;
	}
	arrive(s, a.to, a.state, (uint16_t)(i + 1), false);
}

/* Whether another instruction may be followed. */
static bool has_budget(struct code_sweep *s)
{
	if (s->budget && s->budget % CLOCK_EVERY == 0 && s->piece.until_ns &&
	    clock_thread_cpu_ns() > s->piece.until_ns)
		s->budget = 0;
	if (!s->budget)
		return false;
	s->budget--;
	return true;
}

static void run(struct code_sweep *s)
{
	while (!s->conflict && !s->no_memory) {
		if (s->queue.n) {
			const uint32_t off = s->queue.v[--s->queue.n];

			s->places[off].flags &= (uint8_t)~QUEUED;
			if (!has_budget(s)) {
				contradict(s, 0);
				return;
			}
			follow(s, off);
		} else if (s->assumptions.next < s->assumptions.n) {
			try_assumption(s);
		} else {
			return;
		}
	}
}

/* Code between that of the function to which no path leads: cases of the jump whose targets are unknown. */
static void follow_leftovers(struct code_sweep *s)
{
	uint32_t off = s->entry;

	while (s->unresolved != NO_STATE && !s->conflict && !s->no_memory && off < s->piece.n &&
	       off < s->end + BEHIND_BYTES) {
		const struct place *p = &s->places[off];
		uint32_t padded;

		if ((off > s->entry && is_start(s, off)) || is_covered(s, off))
			return;
		if (p->state != NO_STATE) {
			off += p->len ?: 1;
			continue;
		}
		padded = x86_padding(s->piece.code, s->piece.n, off);
		if (padded > off) {
			off = padded;
			continue;
		}
		assume(s, off, off, s->unresolved, false, false);
		run(s);
		off += x86_decode(s->piece.code + off, s->piece.n - off).len ?: 1;
	}
}

static void forget(struct code_sweep *s)
{
	for (size_t i = 0; i < s->trail.n; i++) {
		struct place *p = &s->places[s->trail.v[i]];

		p->state = NO_STATE;
		p->assumption = 0;
		p->flags &= (uint8_t)~QUEUED;
	}
	s->trail.n = s->queue.n = s->calls.n = s->loads.n = 0;
	code_assumptions_clear(&s->assumptions);
	s->left = s->conflict = false;
	s->n_calls = 0;
	s->unresolved = NO_STATE;
	s->context = (struct jump_context){0};
}

/* Follows the function until nothing contradicts. False: it always does. */
static bool follow_function(struct code_sweep *s, uint32_t entry, bool known)
{
	const struct flow_state outside = flow_entry(), inside = flow_entry_inside();
	const uint32_t states[] = {state_add(s, &outside), state_add(s, &inside)};
	bool was_inside;

	s->known_entry = known;
	s->inside = s->doubts = false;
	for (int tries = known ? TRIES_KNOWN : TRIES_GUESS; tries > 0 && !s->no_memory; tries--) {
		forget(s);
		s->entry = s->end = entry;
		was_inside = s->inside;
		arrive(s, entry, states[was_inside], 0, false);
		run(s);
		follow_leftovers(s);
		if (!s->conflict)
			return true;
		if (s->inside != was_inside)
			continue;
		if (!s->blamed) {
			if (s->doubts || !known)
				return false;
			s->doubts = true; /* V8's own raise errors by a function that otherwise returns */
			continue;
		}
		note_callee(s, s->blamed - 1u, false);
		s->places[s->assumptions.v[s->blamed - 1].from].flags |= DENIED;
	}
	return false;
}

static void accept(struct code_sweep *s)
{
	code_assumptions_conclude(&s->assumptions);
	for (size_t i = 0; i < s->assumptions.n && (s->piece.before || s->piece.behind); i++)
		if (code_assumptions_is_proven(&s->assumptions, (uint16_t)(i + 1)))
			note_callee(s, i, true);
	for (size_t i = 0; i < s->trail.n; i++) {
		struct place *p = &s->places[s->trail.v[i]];

		if (code_assumptions_is_proven(&s->assumptions, p->assumption))
			p->flags |= ACCEPTED;
		else
			*p = (struct place){.flags = (uint8_t)(p->flags & ~QUEUED)};
	}
	for (size_t i = 0; i < s->calls.n; i++) {
		s->places[s->calls.v[i]].flags |= START;
		offsets_add(s, &s->known, s->calls.v[i]);
	}
	for (size_t i = 0; i < s->loads.n; i++)
		offsets_add(s, &s->pointers, s->loads.v[i]);
	s->trail.n = 0;
}

static bool is_behind_call(const struct code_sweep *s, uint32_t off)
{
	const uint8_t *code = s->piece.code + off;

	return (off >= 5 && code[-5] == 0xe8) ||
	       (off >= 2 && code[-2] == 0xff && (code[-1] & 0xf8) == 0xd0) ||
	       (off >= 3 && code[-3] == 0xff && (code[-2] & 0xf8) == 0x50);
}

/* Whether what is before `off` seems to end there: padding, ret, hlt, ud2, a jump, a call. */
static bool is_behind_end(const struct code_sweep *s, uint32_t off)
{
	const uint8_t *code = s->piece.code + off;

	if (off == 0 || is_covered(s, off - 1) || x86_padding(s->piece.code, off, off - 1) == off)
		return true;
	return code[-1] == 0xc3 || code[-1] == 0xf4 || (off >= 2 && code[-2] == 0x0f && code[-1] == 0x0b) ||
	       (off >= 2 && code[-2] == 0xeb) || (off >= 5 && (code[-5] & 0xfe) == 0xe8) ||
	       x86_ends_with_nop(s->piece.code, off);
}

static bool may_begin(const struct code_sweep *s, uint32_t off)
{
	return (s->piece.va + off) % ENTRY_ALIGN == 0 || is_behind_end(s, off);
}

enum kind { KNOWN, POINTER, GUESS };

/*
 * Whether the followed function is one, though no path through it ends as it must: it never returns. Labels
 * of a switch, in data, return addresses and handlers of exceptions are pointers, too, but hardly begin like
 * a function.
 */
static bool is_plausible(const struct code_sweep *s, uint32_t entry, enum kind kind)
{
	const struct code_start *start =
		s->piece.starts ? code_starts_at(s->piece.starts, s->piece.va + entry) : NULL;
	const bool doubtful = (start && start->word) || is_behind_call(s, entry);

	return kind == KNOWN || (kind == POINTER && s->n_calls && may_begin(s, entry) &&
				 (begins_like_a_function(s, entry) ||
				  (!doubtful && (s->piece.va + entry) % ENTRY_ALIGN == 0)));
}

static void explore(struct code_sweep *s, uint32_t entry, enum kind kind)
{
	struct place *p = &s->places[entry];

	if (p->flags & ACCEPTED && kind == KNOWN && !flow_at_entry(&s->states.v[p->state]))
		s->again = true;
	if (p->flags & (ACCEPTED | COVERED | (kind == KNOWN ? FAILED : 0)))
		return;
	if (follow_function(s, entry, kind == KNOWN) && (s->left || is_plausible(s, entry, kind)))
		accept(s);
	else {
		p->flags |= kind == KNOWN ? FAILED : 0;
		for (size_t i = 0; i < s->trail.n && (s->conflict || kind == GUESS); i++)
			s->places[s->trail.v[i]].flags |= TRIED;
		forget(s);
	}
}

static bool is_over(const struct code_sweep *s)
{
	return s->no_memory || !s->budget;
}

/* Follows what the accepted functions call, and those that these call. */
static void explore_known(struct code_sweep *s)
{
	while (s->known.n && !is_over(s))
		explore(s, s->known.v[--s->known.n], KNOWN);
}

static void explore_pointers(struct code_sweep *s)
{
	while (s->pointers.n && !is_over(s)) {
		explore(s, s->pointers.v[--s->pointers.n], POINTER);
		explore_known(s);
	}
}

static void read_starts(struct code_sweep *s, const struct code_starts *starts)
{
	for (size_t i = code_starts_from(starts, s->piece.va);
	     i < starts->n && starts->v[i].va - s->piece.va < s->piece.n; i++) {
		const uint32_t off = (uint32_t)(starts->v[i].va - s->piece.va);

		if (starts->v[i].certain)
			s->places[off].flags |= START;
		offsets_add(s, starts->v[i].certain ? &s->known : &s->pointers, off);
	}
}

/* The next offset at which a function may begin, or at which an instruction is known. */
static uint32_t next_place(const struct code_sweep *s, uint32_t off)
{
	do
		off++;
	while (off < s->piece.n && s->places[off].state == NO_STATE && !is_covered(s, off) &&
	       (s->piece.va + off) % ENTRY_ALIGN != 0);
	return off;
}

/* Whether the instructions from `from` on lead to the one at `to`, and none does anything to the frame. */
static bool leads_to(const struct code_sweep *s, uint32_t from, uint32_t to)
{
	const struct flow_state state = flow_entry();

	while (from < to) {
		const struct x86_insn insn = x86_decode(s->piece.code + from, s->piece.n - from);

		if (!insn.len || !flow_ignores(&state, &insn))
			return false;
		from += insn.len;
	}
	return from == to;
}

/*
 * Guesses that a function begins at the best aligned address from which nothing is done to the frame until
 * the record at this offset is made. False: there is no such address.
 */
static bool explore_record(struct code_sweep *s, uint32_t record)
{
	bool any = false;

	for (uint32_t align = BEST_ALIGN; align >= ENTRY_ALIGN; align /= 2) {
		const uint32_t before = (uint32_t)(s->piece.va + record) % align;

		if (before > record || !leads_to(s, record - before, record))
			continue;
		any = true;
		explore(s, record - before, GUESS);
		explore_known(s);
		explore_pointers(s);
		if (s->places[record].state != NO_STATE)
			return true;
	}
	return any;
}

/* The next offset from `at` on where a frame record is made. */
static uint32_t next_record(const struct code_sweep *s, uint32_t at)
{
	while (at < s->piece.n && !x86_makes_record(s->piece.code + at, s->piece.n - at))
		at++;
	return at;
}

/*
 * Guesses where functions of a compiler at run time begin, by the frame records that they make. Between
 * functions there are data, and where these pass for instructions, a function seems to begin there, and to
 * run into the true one, with another frame. If the true one is known before, that is a contradiction. What
 * belongs to a function that cannot be followed is claimed: no other begins in it.
 */
static void explore_records(struct code_sweep *s)
{
	uint32_t record = s->piece.generated ? next_record(s, 0) : s->piece.n, next;

	for (; record < s->piece.n && !is_over(s); record = next) {
		uint32_t end;

		next = next_record(s, record + 1);
		if (s->places[record].state != NO_STATE || !explore_record(s, record) ||
		    s->places[record].state != NO_STATE)
			continue;
		end = code_extent(s->piece.va, s->piece.code, s->piece.n, record, next);
		for (uint32_t at = record; at < end && at < next; at++)
			s->places[at].flags |= CLAIMED;
	}
}

static void explore_guesses(struct code_sweep *s)
{
	uint32_t at = 0, behind = 0; /* the end of the last known instruction */

	while (at < s->piece.n && !is_over(s)) {
		const struct place *p = &s->places[at];

		if (p->state != NO_STATE || p->flags & COVERED) {
			at += p->len ?: 1;
			behind = at;
			continue;
		}
		at = x86_padding(s->piece.code, s->piece.n, at);
		if (at >= s->piece.n || s->places[at].state != NO_STATE || is_covered(s, at))
			continue;
		p = &s->places[at];
		if (p->flags & CLAIMED) {
			at++;
			continue;
		}
		if (p->flags & TRIED && !begins_like_a_function(s, at) &&
		    !(s->piece.generated && (s->piece.va + at) % ENTRY_ALIGN == 0)) {
			at += p->len ?: 1;
			continue;
		}
		if (((s->piece.va + at) % ENTRY_ALIGN == 0 && (s->piece.generated || is_behind_end(s, at))) ||
		    ((s->piece.starts || s->piece.generated) && at == behind)) {
			explore(s, at, GUESS);
			explore_known(s);
			explore_pointers(s);
		}
		if (s->places[at].state == NO_STATE)
			at = next_place(s, at);
	}
}

/* Marks the bytes that other sources describe. */
static void read_covered(struct code_sweep *s, const struct row_spans *spans)
{
	const uint64_t start = s->piece.va, end = start + s->piece.n;

	for (size_t i = 0; i < spans->n; i++) {
		const struct row_span *span = &spans->v[i];
		const uint64_t to = span->end < end ? span->end : end;

		for (uint64_t va = span->start > start ? span->start : start; va < to; va++)
			s->places[va - start].flags |= COVERED;
	}
}

/* For a start that was found in the middle of an accepted function, all is followed anew. */
static void begin_again(struct code_sweep *s)
{
	for (uint32_t i = 0; i < s->piece.n; i++) {
		s->places[i].state = NO_STATE;
		s->places[i].flags &= DENIED | START | COVERED;
		s->places[i].len = 0;
	}
	s->known.n = s->pointers.n = 0;
	s->again = false;
}

static void explore_all(struct code_sweep *s)
{
	for (int round = 0; round < ROUNDS_MAX; round++) {
		if (s->piece.starts || s->piece.symbols)
			read_starts(s, s->piece.starts ?: s->piece.symbols);
		explore_known(s);
		explore_pointers(s);
		if (!s->piece.single) {
			explore_records(s);
			explore_guesses(s);
		}
		if (!s->again || round == ROUNDS_MAX - 1)
			return;
		begin_again(s);
	}
}

/* --- ends of functions whose frames are not known */

/* Moves *off back to the instruction that ends there. False: none is known. */
static bool previous(const struct code_sweep *s, uint32_t *off)
{
	for (uint32_t at = *off; at-- > 0 && *off - at <= X86_MAX_BYTES;)
		if (s->places[at].flags & ACCEPTED) {
			const bool ends = s->places[at].len == *off - at;

			*off = at;
			return ends;
		}
	return false;
}

/* Whether a function seems to end with the instruction. */
static bool may_be_exit(const struct code_sweep *s, uint32_t off)
{
	uint32_t before[TAIL_JUMP_INSNS], at = off;
	size_t n = 0;

	while (n < TAIL_JUMP_INSNS && previous(s, &at))
		before[n++] = at;
	return tail_jump_seems(s->piece.code, s->piece.n, off, before, n);
}

/* Whether a function ends with the instruction: it returns, or jumps to another that is certainly one. */
static bool is_exit(const struct code_sweep *s, uint32_t off, const struct x86_insn *insn)
{
	const int64_t target = (int64_t)off + insn->len + insn->disp;

	if (insn->op == X86_RETURN)
		return drops_words(s->piece.code + off, insn->len);
	if (insn->op != X86_JUMP)
		return false;
	return target >= 0 && target < s->piece.n ? is_start(s, (uint32_t)target)
						  : is_certain_start(s, target);
}

/* The instruction at `off`, at which the frame is lost. */
static struct code_end end_at(const struct code_sweep *s, uint32_t off)
{
	const struct x86_insn insn = x86_decode(s->piece.code + off, s->piece.n - off);
	struct code_end end = {.off = off, .len = s->places[off].len};
	const bool guessed = insn.op == X86_JUMP_FAR_AWAY && may_be_exit(s, off);

	if (guessed || is_exit(s, off, &insn)) {
		end.kind = CODE_END_KNOWN;
		end.back = flow_back_exit(guessed);
	}
	return end;
}

/* Adds those at which the frame is lost. -ENOMEM; else whether functions end with some of them. */
static int read_lost(const struct code_sweep *s, struct code_end **ret, size_t *ret_n)
{
	size_t cap = 0;
	int known = 0;

	for (uint32_t off = 0; off < s->piece.n; off++) {
		const struct place *p = &s->places[off];

		if (!(p->flags & ACCEPTED) || p->state != LOST_STATE || p->len > s->piece.n - off)
			continue;
		if (*ret_n == cap && array_reserve(ret, &cap, *ret_n + 1, sizeof **ret) < 0)
			return -ENOMEM;
		(*ret)[*ret_n] = end_at(s, off);
		known |= (*ret)[(*ret_n)++].kind == CODE_END_KNOWN;
	}
	return known;
}

/* Finds out from the ends of functions what is known of their frames. */
static void follow_exits(struct code_sweep *s)
{
	_cleanup_free_ struct code_end *ends = NULL;
	size_t n = 0;
	int r = read_lost(s, &ends, &n);

	if (r > 0)
		r = code_ends_follow(s->piece.code, ends, n);
	s->no_memory |= r < 0;
	for (size_t i = 0; i < n && !s->no_memory; i++)
		if (ends[i].kind == CODE_END_KNOWN) {
			const struct flow_state state = flow_back_state(&ends[i].back);

			s->places[ends[i].off].state = state_add(s, &state);
		}
}

/* --- what came of it */

unsigned code_sweep_insn(const struct code_sweep *s, uint32_t off, const struct flow_state **ret_state)
{
	const struct place *p = &s->places[off];

	/* an instruction that extends beyond the piece is not known */
	if (off >= s->piece.n || !(p->flags & ACCEPTED) || p->len > s->piece.n - off)
		return 0;
	if (ret_state)
		*ret_state = p->state == LOST_STATE ? NULL : &s->states.v[p->state];
	return p->len;
}

bool code_sweep_is_covered(const struct code_sweep *s, uint32_t off)
{
	return is_covered(s, off);
}

int code_sweep_new(struct code_sweep **ret, const struct code_piece *piece, const struct row_spans *spans)
{
	struct code_sweep *s = calloc(1, sizeof *s);

	if (!s)
		return -ENOMEM;
	s->piece = *piece;
	s->places = array_zeroed(piece->n, sizeof *s->places);
	s->budget = (uint64_t)piece->n * BUDGET_PER_BYTE | (CLOCK_EVERY - 1); /* not read for small pieces */
	if (piece->before || piece->behind) {
		s->callees = calloc(CALLEES, sizeof *s->callees);
		s->no_memory = !s->callees;
	}
	if (s->places && !s->no_memory && code_states_init(&s->states) == 0 &&
	    code_returns_init(&s->returns, piece) == 0) {
		if (piece->starts) /* else it is a gap */
			read_covered(s, spans);
		explore_all(s);
		follow_exits(s);
	} else {
		s->no_memory = true;
	}
	if (s->no_memory) {
		code_sweep_free(s);
		return -ENOMEM;
	}
	*ret = s;
	return 0;
}
