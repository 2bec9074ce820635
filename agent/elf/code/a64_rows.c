// SPDX-License-Identifier: Apache-2.0
/*
 * Follows each function from its first instruction along all branches. Where two paths meet, what both agree
 * on is kept. What is never reached so has another way in. Where it leads to code that was reached, without
 * a change of the frame, it has the frame that is there. Else it is entered by a jump by a table, with the
 * frame that the function has at the jump; or nothing here refers to the function, which is entered through
 * a pointer. That is proven where a path ends as a function must, with the frame as at its entry, and none
 * ends otherwise: in the middle of a function that has a frame, paths end by removing what was never made.
 * What follows from such guesses changes nothing of what was reached before.
 *
 * A call may not return, and what follows it is then another function. That shows where it makes a frame,
 * or saves a return address, which the code before has done already.
 */
#include "agent/elf/code/a64_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/elf/code/a64_flow.h"
#include "agent/elf/code/starts.h"
#include "agent/elf/file/elf_image.h"

#define STATES_MAX 65536u /* different ones, of one piece; code of compilers has some hundred */
#define TABLE_MIN 512u
#define NO_STATE 0u
#define FUNCTION_ALIGN 16u
#define A64_NOP_WORD 0xd503201fu
#define FILLED_ALIGN 32u   /* of V8's functions */
#define LEADS_WITHIN 64u   /* instructions */
#define FIRST_PRESERVED 19 /* x19 to x28, and x29 and x30 */
#define CLONE 220
#define CLONE3 435
#define EXIT 93
#define NUMBER_WITHIN 8u /* instructions between the number of a system call and the call */
#define CHILD_WITHIN 16u /* instructions of a thread's first code */

struct flags {
	uint8_t start : 1; /* a function begins here */
	uint8_t queued : 1;
	uint8_t settled : 1; /* its state does not change any more */
};

/* What is known of a function outside of the piece. */
struct slot {
	uint64_t va;
	bool returns;
};

#define SLOTS 256u
#define SLOT_BYTES 16u
#define SLOT_INSNS 5u

struct sweep {
	const struct code_piece *piece;
	const uint8_t *code;
	uint32_t n; /* instructions */
	/* all owned; by instruction, but for `states`, whose [NO_STATE] is no state */
	uint32_t *state;
	struct flags *flags;
	uint32_t *queue;
	uint32_t n_queue;
	struct a64_state *states;
	size_t n_states, cap_states;
	uint32_t *table;  /* owned; numbers of states by their hash */
	uint32_t n_table; /* a power of two */
	struct slot slots[SLOTS];
	bool is_full; /* too many states: nothing is said of the piece */
	bool is_v8;   /* V8's own functions are in it */
	bool records; /* functions keep frame records, and push registers as arguments, as V8's do */
	/* of a guess: the instructions that it has reached first (owned), and how its paths end */
	uint32_t *trail;
	uint32_t n_trail;
	bool tries, left, failed;
};

static uint32_t word_at(const struct sweep *s, uint32_t i)
{
	uint32_t word;

	memcpy(&word, s->code + (size_t)i * A64_BYTES, sizeof word);
	return word;
}

static bool is_padding(uint32_t word)
{
	return word == 0 || word == A64_NOP_WORD || word == A64_FILL; /* the first: udf #0 */
}

/* The number of a state that is equal. */
static uint32_t intern(struct sweep *s, const struct a64_state *state)
{
	uint32_t words[sizeof *state / sizeof(uint32_t)], hash = 0, at;

	memcpy(words, state, sizeof words);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		hash = (hash ^ words[i]) * 2654435761u;
	at = (hash ^ hash >> 16) & (s->n_table - 1);
	for (; s->table[at]; at = (at + 1) & (s->n_table - 1))
		if (memcmp(&s->states[s->table[at]], state, sizeof *state) == 0)
			return s->table[at];
	if (s->n_states >= s->n_table / 2 ||
	    array_reserve(&s->states, &s->cap_states, s->n_states + 1, sizeof *state)) {
		s->is_full = true;
		return NO_STATE;
	}
	s->states[s->n_states] = *state;
	s->table[at] = (uint32_t)s->n_states;
	return (uint32_t)s->n_states++;
}

/* str or stp of registers that calls preserve, [sp, #-n]! */
static bool makes_frame(const struct a64_insn *insn)
{
	return insn->op == A64_STORE && insn->reg >= FIRST_PRESERVED && insn->reg <= A64_LR &&
	       insn->base == A64_SP && insn->pre && insn->writeback < 0;
}

static void enqueue(struct sweep *s, uint32_t i, uint32_t state)
{
	if (s->state[i] == state || state == NO_STATE)
		return;
	s->state[i] = state;
	if (!s->flags[i].queued) {
		s->flags[i].queued = 1;
		s->queue[s->n_queue++] = i;
	}
}

/* By x16 or x17, a linker's code jumps to another function. */
static bool is_linkers_jump(const struct a64_insn *insn)
{
	return insn->op == A64_JUMP_REG && (insn->base == 16 || insn->base == 17);
}

/* adrp x16, …; … br x17: a slot of the PLT, or code that reaches farther than a call does. */
static bool is_slot(const struct sweep *s, uint32_t i)
{
	for (uint32_t k = i + 1; (word_at(s, i) & 0x9f00001f) == 0x90000010 && k < s->n && k - i < SLOT_INSNS;
	     k++) {
		const struct a64_insn insn = a64_decode(word_at(s, k));

		if (is_linkers_jump(&insn))
			return true;
	}
	return false;
}

/* `guess`: it may be in the middle of one, unless its first instructions say that it is not. */
static void begin(struct sweep *s, uint32_t i, bool guess)
{
	const struct a64_insn insn = a64_decode(word_at(s, i));
	struct a64_state entry = a64_entry();

	entry.guess = guess && insn.op != A64_ENTRY && !makes_frame(&insn) && !is_slot(s, i);
	s->flags[i].start = 1;
	enqueue(s, i, intern(s, &entry));
}

/*
 * Whether a call goes to a function of another file that does not return, by a slot of the PLT:
 * adrp x16, page; ldr x17, [x16, #n], perhaps with bti c in front.
 */
static bool slot_returns(const struct sweep *s, uint64_t va)
{
	uint32_t words[3];
	struct a64_pages pages = {0};

	if (elf_image_read_code(s->piece->img, va, (uint8_t *)words, sizeof words) < 0)
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		const struct a64_insn insn = a64_decode(words[i]);
		const uint64_t got = a64_address(&pages, words[i], va + i * A64_BYTES, &insn);

		if (insn.op == A64_LOAD && got)
			return !code_starts_no_return(s->piece->starts, got);
	}
	return true;
}

static bool returns(struct sweep *s, uint32_t i, const struct a64_insn *insn)
{
	const uint64_t va = s->piece->va + (uint64_t)i * A64_BYTES + (uint64_t)(int64_t)insn->disp;
	struct slot *slot = &s->slots[va / SLOT_BYTES % SLOTS];

	if (!s->piece->img || !s->piece->starts || !s->piece->starts->n_no_return ||
	    va - s->piece->va < (uint64_t)s->n * A64_BYTES)
		return true;
	if (slot->va != va)
		*slot = (struct slot){va, slot_returns(s, va)};
	return slot->returns;
}

/* Whether it may be an instruction that only functions begin with; for most, it is not. */
static bool may_begin(uint32_t word)
{
	return (word & 0xffc003e0) == 0xa98003e0 || (word & 0xffe00fe0) == 0xf8000fe0 ||
	       (word & 0xfffff01f) == 0xd503201f;
}

/* Whether a function begins where the code before has a frame, or has saved its return address. */
static bool begins_anew(const struct sweep *s, uint32_t i, uint32_t state)
{
	struct a64_insn insn;

	if (s->states[state].ra_at == A64_IN_REGISTER || s->records || !may_begin(word_at(s, i)))
		return false;
	insn = a64_decode(word_at(s, i));
	return insn.op == A64_ENTRY || makes_frame(&insn);
}

/* The instruction is reached with this state. True: its own has changed, and it must be followed. */
static bool arrive(struct sweep *s, uint32_t i, uint32_t state)
{
	struct a64_state met;
	uint32_t old = s->state[i];

	if (old == state || state == NO_STATE || s->flags[i].start || s->flags[i].settled)
		return false;
	if (begins_anew(s, i, state)) {
		begin(s, i, false);
		return false; /* it is in the queue */
	}
	if (!old) {
		s->state[i] = state;
		if (s->tries)
			s->trail[s->n_trail++] = i;
		return true;
	}
	met = s->states[old];
	a64_meet(&met, &s->states[state]);
	s->state[i] = intern(s, &met);
	return s->state[i] != old;
}

static void reach(struct sweep *s, int64_t i, uint32_t state)
{
	if (i >= 0 && i < s->n && arrive(s, (uint32_t)i, state) && !s->flags[i].queued) {
		s->flags[i].queued = 1;
		s->queue[s->n_queue++] = (uint32_t)i;
	}
}

/*
 * Whether code of V8 that has no frame takes away the frame record of what has called it, which is as at its
 * own entry then: it is going to be entered again. ldp x29, x30, [sp], #16
 */
static bool pops_record(const struct sweep *s, uint32_t state, const struct a64_insn *insn)
{
	const struct a64_state entry = a64_entry();

	return s->is_v8 && insn->op == A64_LOAD && insn->reg == A64_FP && insn->reg2 == A64_LR &&
	       insn->base == A64_SP && !insn->pre && insn->writeback == 16 &&
	       memcmp(&s->states[state], &entry, sizeof entry) == 0;
}

static uint32_t state_behind(struct sweep *s, uint32_t state, const struct a64_insn *insn)
{
	struct a64_state changed;

	if (!a64_changes(&s->states[state], insn) || pops_record(s, state, insn))
		return state;
	changed = s->states[state];
	a64_step(&changed, insn);
	return intern(s, &changed);
}

/* Whether the instruction at `i` may be followed by the one behind it. */
static bool goes_on(struct sweep *s, uint32_t i, const struct a64_insn *insn)
{
	switch (insn->op) {
	case A64_CALL:
		return returns(s, i, insn);
	case A64_JUMP:
	case A64_RETURN:
	case A64_JUMP_REG:
	case A64_TRAP:
		return false;
	default:
		return true;
	}
}

/*
 * Notes how a path of a guess ends: as a function must if x29 and x30 are as at its entry. One that is not at
 * the beginning has loaded them from where it has not saved them. Functions of V8 leave any number of
 * arguments on the stack when they jump to another one, and remove any number of theirs when they return.
 */
static void note_end(struct sweep *s, uint32_t i, const struct a64_insn *insn)
{
	const struct a64_state *state = &s->states[s->state[i]];

	if (insn->op != A64_RETURN && !is_linkers_jump(insn))
		return;
	if (state->fp_at != A64_IN_REGISTER || state->ra_at != A64_IN_REGISTER)
		s->failed = true;
	else if (!state->sp_known || !state->sp || (s->piece->generated && insn->op == A64_RETURN))
		s->left = true;
	else if (insn->op == A64_RETURN || state->sp < 0)
		s->failed = true;
}

static void follow(struct sweep *s, uint32_t i)
{
	for (bool on = true; on && !s->is_full; i++) {
		const struct a64_insn insn = a64_decode(word_at(s, i));
		const uint32_t state = state_behind(s, s->state[i], &insn);

		note_end(s, i, &insn);
		if (insn.op == A64_JUMP || insn.op == A64_BRANCH)
			reach(s, (int64_t)i + insn.disp / (int32_t)A64_BYTES, state);
		on = goes_on(s, i, &insn) && i + 1 < s->n && arrive(s, i + 1, state);
	}
}

static void drain(struct sweep *s)
{
	while (s->n_queue && !s->is_full) {
		const uint32_t i = s->queue[--s->n_queue];

		s->flags[i].queued = 0;
		follow(s, i);
	}
}

/* --- where functions begin */

/* Behind a call, perhaps with padding between them: what a pointer leads to there, execution does not. */
static bool is_behind_call(const struct sweep *s, uint32_t i)
{
	while (i > 0 && is_padding(word_at(s, i - 1)))
		i--;
	return i > 0 && a64_decode(word_at(s, i - 1)).op == A64_CALL;
}

/* The first known start from index *k on that is in the piece, at instruction *ret. NULL: there is none. */
static const struct code_start *next_start(const struct sweep *s, const struct code_starts *starts, size_t *k,
					   uint32_t *ret)
{
	for (; starts && *k < starts->n; ++*k) {
		const uint64_t at = starts->v[*k].va - s->piece->va;

		if (at / A64_BYTES >= s->n)
			return NULL;
		*ret = (uint32_t)(at / A64_BYTES);
		if (at % A64_BYTES == 0)
			return &starts->v[(*k)++];
	}
	return NULL;
}

static void begin_certain(struct sweep *s, const struct code_starts *starts)
{
	size_t k = starts ? code_starts_from(starts, s->piece->va) : 0;
	const struct code_start *start;
	uint32_t i;

	while ((start = next_start(s, starts, &k, &i)))
		if (start->certain || is_behind_call(s, i))
			begin(s, i, false);
}

/* V8's fill comes only between functions, behind each of its own. */
static void begin_behind_fill(struct sweep *s)
{
	for (uint32_t i = 1; i < s->n; i++)
		if (word_at(s, i - 1) == A64_FILL && word_at(s, i) != A64_FILL &&
		    (s->piece->va + (uint64_t)i * A64_BYTES) % FILLED_ALIGN == 0) {
			begin(s, i, false);
			s->is_v8 = true;
		}
}

/* Whether the code of a function, [i, end), calls without having saved its own return address anywhere. */
static bool calls_unsaved(const struct sweep *s, uint32_t i, uint32_t end)
{
	bool calls = false;

	for (; i < end; i++) {
		const struct a64_insn insn = a64_decode(word_at(s, i));
		const struct a64_state *state = &s->states[s->state[i]];

		if (insn.op == A64_STORE && (insn.reg == A64_LR || insn.reg2 == A64_LR))
			return false;
		calls |= (insn.op == A64_CALL || insn.op == A64_CALL_REG) && s->state[i] &&
			 state->ra_at == A64_IN_REGISTER;
	}
	return calls;
}

/*
 * A function of V8 that calls so is not called itself: what returns to it goes on with the frame that x29
 * has, as an interpreted function whose compiled code was given up.
 */
static void begin_with_record(struct sweep *s)
{
	const struct a64_state record = {.fp_known = 1, .fp = 16, .fp_at = -16, .ra_at = -8};

	for (uint32_t i = 1, end; s->is_v8 && i < s->n; i = end + 1) {
		for (end = i; end < s->n && word_at(s, end) != A64_FILL; end++)
			;
		if (i == end || !s->flags[i].start || !calls_unsaved(s, i, end))
			continue;
		memset(s->state + i, 0, (end - i) * sizeof *s->state);
		enqueue(s, i, intern(s, &record));
		drain(s);
	}
}

/* What the piece's code calls, and addresses in it that the code makes: those of labels come from `adr`. */
static void begin_called(struct sweep *s)
{
	struct a64_pages pages = {0};

	for (uint32_t i = 0; i < s->n; i++) {
		const uint64_t va = s->piece->va + (uint64_t)i * A64_BYTES;
		const uint32_t word = word_at(s, i);
		const struct a64_insn insn = a64_decode(word);
		const uint64_t address = a64_address(&pages, word, va, &insn);
		uint64_t to = UINT64_MAX;

		if (insn.op == A64_ENTRY)
			to = va;
		else if (insn.op == A64_CALL && insn.disp != (int32_t)A64_BYTES)
			to = va + (uint64_t)(int64_t)insn.disp;
		else if (insn.op == A64_ADD && address)
			to = address;
		to -= s->piece->va;
		if (to % A64_BYTES == 0 && to / A64_BYTES < s->n)
			begin(s, (uint32_t)(to / A64_BYTES), false);
	}
}

/* --- threads */

static bool loads_number(uint32_t word, unsigned number)
{
	return word == (0xd2800008 | number << 5); /* mov x8, #number */
}

static bool is_clone(const struct sweep *s, uint32_t at)
{
	for (uint32_t k = 1; k <= NUMBER_WITHIN && k <= at; k++)
		if (loads_number(word_at(s, at - k), CLONE) || loads_number(word_at(s, at - k), CLONE3))
			return true;
	return false;
}

/* A thread's first code calls its function, and makes the system call exit afterwards. */
static bool is_thread(const struct sweep *s, uint32_t at)
{
	bool called = false;

	for (uint32_t k = at; k < s->n && k - at < CHILD_WITHIN; k++) {
		const uint32_t word = word_at(s, k);

		called |= a64_decode(word).op == A64_CALL_REG;
		if (called && loads_number(word, EXIT))
			return true;
	}
	return false;
}

/* Behind clone(2), the child branches, or the parent does: cbz x0, child; or cbnz x0, parent. */
static void begin_threads(struct sweep *s)
{
	const struct a64_state root = {.sp_known = 1, .root = 1};

	for (uint32_t i = 0; i + 2 < s->n; i++) {
		uint32_t word = word_at(s, i), child;

		if (word != 0xd4000001 || !is_clone(s, i)) /* svc #0 */
			continue;
		word = word_at(s, i + 1);
		if (word >> 24 != 0xb4 && word >> 24 != 0xb5)
			continue;
		child = word >> 24 == 0xb5 ? i + 2
					   : i + 1 + (uint32_t)(a64_decode(word).disp / (int32_t)A64_BYTES);
		if (child < s->n && is_thread(s, child)) {
			s->flags[child].start = 1;
			enqueue(s, child, intern(s, &root));
		}
	}
}

/* --- what was not reached */

/* What was reached so far keeps its state. */
static void settle(struct sweep *s)
{
	for (uint32_t i = 0; i < s->n; i++)
		s->flags[i].settled = s->state[i] != NO_STATE;
}

/*
 * The state before an instruction that was not reached, by what it leads to: up to there, nothing changes the
 * frame. At a return, and at a jump to another function, it is as at entry. NO_STATE: that says nothing.
 */
static uint32_t state_by_target(struct sweep *s, uint32_t i)
{
	const uint32_t frame = 1u << A64_SP | 1u << A64_FP | 1u << A64_LR;
	const struct a64_state entry = a64_entry();
	bool calls = false; /* then the return address is not in its register any more */

	for (uint32_t k = i; k < s->n && k - i < LEADS_WITHIN; k++) {
		const struct a64_insn insn = a64_decode(word_at(s, k));
		const bool jumps = insn.op == A64_JUMP || insn.op == A64_BRANCH;
		const int64_t target = jumps ? (int64_t)k + insn.disp / (int32_t)A64_BYTES : (int64_t)k;
		const uint32_t there = target >= 0 && target < s->n ? s->state[target] : NO_STATE;

		if (there && !s->flags[target].start)
			return calls && s->states[there].ra_at == A64_IN_REGISTER ? NO_STATE : there;
		if (!calls &&
		    (insn.op == A64_RETURN || (insn.op == A64_JUMP && there && !s->states[there].guess)))
			return intern(s, &entry);
		if (insn.op == A64_CALL || insn.op == A64_CALL_REG)
			calls = true;
		else if (insn.writes & frame || insn.op == A64_JUMP || insn.op == A64_JUMP_REG ||
			 insn.op == A64_RETURN || insn.op == A64_TRAP)
			return NO_STATE;
	}
	return NO_STATE;
}

/*
 * What pointers lead to, and nothing else: functions, or labels of computed jumps, which lead to the rest of
 * their function, and which compilers do not align so much.
 */
static void begin_pointed(struct sweep *s, const struct code_starts *starts)
{
	size_t k = starts ? code_starts_from(starts, s->piece->va) : 0;
	const struct code_start *start;
	uint32_t i;

	while ((start = next_start(s, starts, &k, &i)))
		if (!s->state[i] && !state_by_target(s, i))
			begin(s, i, start->va % FUNCTION_ALIGN != 0);
}

/* Follows what may be a function that nothing here refers to; anew if it is proven to be one. */
static void try_function(struct sweep *s, uint32_t i)
{
	s->n_trail = 0;
	s->tries = true;
	s->left = s->failed = false;
	begin(s, i, true);
	drain(s);
	s->tries = false;
	if (!s->left || s->failed || s->is_full)
		return;
	for (uint32_t k = 0; k < s->n_trail; k++)
		s->state[s->trail[k]] = NO_STATE;
	s->state[i] = NO_STATE;
	begin(s, i, false);
	drain(s);
}

static void reach_rest(struct sweep *s)
{
	uint32_t table = NO_STATE; /* state at the last jump by a register with a frame, of this function */

	for (uint32_t i = 0; i < s->n && !s->is_full; i++) {
		const struct a64_insn insn = a64_decode(word_at(s, i));
		const struct a64_state *state = &s->states[s->state[i]];
		uint32_t from;

		if (s->flags[i].start)
			table = NO_STATE;
		if (s->state[i] && insn.op == A64_JUMP_REG && !is_linkers_jump(&insn) &&
		    (state->sp || state->fp_known))
			table = s->state[i];
		if (s->state[i] || is_padding(word_at(s, i)))
			continue;
		from = insn.op == A64_ENTRY || makes_frame(&insn) ? NO_STATE : state_by_target(s, i);
		if (!from && insn.op != A64_ENTRY && !makes_frame(&insn))
			from = table;
		if (from) {
			reach(s, i, from);
			drain(s);
		} else {
			try_function(s, i);
			table = NO_STATE;
		}
		s->flags[i].settled = 1;
	}
}

/* --- rows */

static bool is_sigreturn(const struct sweep *s, uint32_t i)
{
	return i + 1 < s->n && a64_is_sigreturn(word_at(s, i), word_at(s, i + 1));
}

/*
 * A signal handler returns to a trampoline's first byte, and an unwinder looks up the byte before, which the
 * span includes. In the system call, the next instruction is the one behind the trampoline, unless that is
 * another function's.
 */
static int emit_trampoline(struct row_spans *spans, const struct sweep *s, uint32_t i)
{
	const struct elf_rule signal = {.cfa_kind = CFA_SIGNAL};
	const bool behind = i + 2 == s->n || is_padding(word_at(s, i + 2));
	const uint64_t va = s->piece->va + (uint64_t)i * A64_BYTES;
	const size_t first = spans->out.n_rows;
	int r = cfi_output_add(&spans->out, 0, &signal);

	return r < 0 ? r : row_spans_add(spans, va - 1, va + (behind ? 3 : 2) * A64_BYTES, first, ELF_CODE);
}

/*
 * Functions of V8 take away arguments that their callers have put on the stack, so that behind calls the
 * stack pointer is only known to those that have made a frame record. Before they make it, they move
 * arguments; the caller has a record, and needs no more of its stack pointer than that it is not below this
 * one.
 */
static void go_by_record(struct a64_state *state, bool is_v8)
{
	if (state->fp_known && state->fp_at < 0 && state->ra_at < 0)
		state->sp = state->sp_known = 0;
	else if (is_v8 && !state->fp_known && state->fp_at == A64_IN_REGISTER &&
		 state->ra_at == A64_IN_REGISTER)
		state->sp_known = 1;
}

static struct elf_rule rule_at(const struct sweep *s, uint32_t i)
{
	struct a64_state state = s->states[s->state[i]];

	if (!s->state[i])
		return (struct elf_rule){.cfa_kind = CFA_NONE, .cfa_off = NO_RULE_REFUSED};
	if (s->records)
		go_by_record(&state, s->is_v8);
	return a64_rule(&state);
}

/* One span from *i up to padding, or to a trampoline. */
static int emit_span(struct row_spans *spans, const struct sweep *s, uint32_t *i)
{
	const uint32_t start = *i;
	const size_t first = spans->out.n_rows;
	int r = 0;

	for (; *i < s->n && r == 0 && !is_sigreturn(s, *i); ++*i) {
		const struct elf_rule rule = rule_at(s, *i);

		if (!s->state[*i] && is_padding(word_at(s, *i)))
			break;
		if (*i == start || s->state[*i] != s->state[*i - 1])
			r = cfi_output_add(&spans->out, (*i - start) * A64_BYTES, &rule);
	}
	return r < 0 ? r
		     : row_spans_add(spans, s->piece->va + (uint64_t)start * A64_BYTES,
				     s->piece->va + (uint64_t)*i * A64_BYTES, first, ELF_CODE);
}

static int emit(struct row_spans *spans, const struct sweep *s)
{
	int r = 0;

	for (uint32_t i = 0; i < s->n && r == 0;) {
		if (is_sigreturn(s, i)) {
			r = emit_trampoline(spans, s, i);
			i += 2;
		} else if (!s->state[i] && is_padding(word_at(s, i))) {
			i++;
		} else {
			r = emit_span(spans, s, &i);
		}
	}
	return r;
}

static void sweep_fini(struct sweep *s)
{
	free(s->state);
	free(s->flags);
	free(s->queue);
	free(s->trail);
	free(s->states);
	free(s->table);
}

static int sweep_init(struct sweep *s, const struct code_piece *piece)
{
	s->piece = piece;
	s->code = piece->code;
	s->n = piece->n / A64_BYTES;
	s->state = calloc(s->n + 1, sizeof *s->state);
	s->flags = calloc(s->n + 1, sizeof *s->flags);
	s->queue = calloc(s->n + 1, sizeof *s->queue);
	s->trail = calloc(s->n + 1, sizeof *s->trail);
	s->n_table = TABLE_MIN;
	while (s->n_table < 2 * STATES_MAX && s->n_table < s->n)
		s->n_table *= 2;
	s->table = calloc(s->n_table, sizeof *s->table);
	if (!s->state || !s->flags || !s->queue || !s->trail || !s->table ||
	    array_reserve(&s->states, &s->cap_states, 1, sizeof *s->states) < 0)
		return -ENOMEM;
	s->states[NO_STATE] = (struct a64_state){0};
	s->n_states = 1;
	return 0;
}

int a64_read_piece(struct row_spans *spans, const struct code_piece *piece)
{
	_cleanup_(sweep_fini) struct sweep s = {0};
	int r;

	if (piece->va % A64_BYTES)
		return 0;
	r = sweep_init(&s, piece);
	if (r < 0)
		return r;
	if (!piece->generated)
		begin_threads(&s);
	begin_certain(&s, piece->starts);
	begin_certain(&s, piece->symbols);
	begin_called(&s);
	begin_behind_fill(&s);
	s.records = s.is_v8 || piece->generated;
	/* a section may begin with a nop in the place of a landing pad (.init and .fini of crti.o) */
	if (piece->before == 0 && s.n && !s.state[0] &&
	    (!is_padding(word_at(&s, 0)) || (word_at(&s, 0) == A64_NOP_WORD && !piece->generated)))
		begin(&s, 0, piece->generated);
	drain(&s);
	begin_with_record(&s);
	settle(&s);
	begin_pointed(&s, piece->starts);
	drain(&s);
	settle(&s);
	reach_rest(&s);
	return s.is_full ? 0 : emit(spans, &s);
}
