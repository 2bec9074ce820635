// SPDX-License-Identifier: Apache-2.0
/*
 * A function returns if there is a path from its entry to a `ret`, where calls of functions that do not
 * return end a path. This is the least solution: functions that only call each other do not return. The
 * search for one function begins a search for each that it calls; about one that is just being searched,
 * nothing is known yet, and then the answer is kept only if a path without it returns.
 */
#include "agent/elf/code/returns.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "agent/base/array.h"
#include "agent/elf/code/starts.h"
#include "agent/elf/file/elf_image.h"

#define DEPTH_MAX 100u	  /* functions that are searched one for the other */
#define BUDGET_PER_BYTE 8 /* instructions */
#define SLOT_BYTES 16
#define ENTRY_ALIGN 16
#define SEARCHED (RETURNS_SURELY + 2) /* an answer: it is being searched */

int code_returns_init(struct code_returns *r, const struct code_piece *piece)
{
	r->piece = *piece;
	r->answers = calloc(piece->n, sizeof *r->answers);
	r->marks = array_zeroed(piece->n, sizeof *r->marks);
	r->budget = (uint64_t)piece->n * BUDGET_PER_BYTE;
	return r->answers && r->marks ? 0 : -ENOMEM;
}

void code_returns_fini(struct code_returns *r)
{
	free(r->answers);
	free(r->marks);
	free(r->work);
	*r = (struct code_returns){0};
}

/* --- outside of the piece */

enum returns code_returns_slot(const struct code_returns *r, uint32_t off, const struct x86_insn *insn)
{
	const uint64_t got = r->piece.va + off + insn->len + (uint64_t)(int64_t)insn->disp;

	return insn->base == X86_IP && r->piece.starts && code_starts_no_return(r->piece.starts, got)
		       ? RETURNS_NEVER
		       : RETURNS_PERHAPS;
}

/* Whether a slot of the procedure linkage table leads to a function that does not return. */
static bool is_no_return_slot(const struct code_returns *r, uint64_t va)
{
	uint8_t code[SLOT_BYTES];
	struct x86_insn insn;

	if (elf_image_read_code(r->piece.img, va, code, sizeof code) < 0)
		return false;
	for (size_t at = 0; at < sizeof code; at += insn.len) {
		insn = x86_decode(code + at, sizeof code - at);
		if (!insn.len || (insn.op != X86_OTHER && insn.op != X86_NOP && insn.op != X86_JUMP_FAR_AWAY))
			return false;
		if (insn.op == X86_JUMP_FAR_AWAY)
			return insn.base == X86_IP &&
			       code_starts_no_return(r->piece.starts,
						     va + at + insn.len + (uint64_t)(int64_t)insn.disp);
	}
	return false;
}

static enum returns outside(struct code_returns *r, int64_t off)
{
	const uint64_t va = r->piece.va + (uint64_t)off;
	const size_t i = (va >> 4 ^ va >> 12) % RETURNS_SLOTS;

	if (!r->piece.img || !r->piece.starts || !r->piece.starts->n_no_return)
		return RETURNS_PERHAPS;
	if (r->slots[i].va != va) {
		r->slots[i].va = va;
		r->slots[i].answer = is_no_return_slot(r, va) ? RETURNS_NEVER : RETURNS_PERHAPS;
	}
	return r->slots[i].answer;
}

/* --- inside */

static void work_add(struct code_returns *r, uint32_t off)
{
	if (array_reserve(&r->work, &r->cap_work, r->n_work + 1, sizeof *r->work) == 0)
		r->work[r->n_work++] = off;
	else
		r->budget = 0;
}

static const struct code_start *start_at(const struct code_returns *r, int64_t off)
{
	return r->piece.starts ? code_starts_at(r->piece.starts, r->piece.va + (uint64_t)off) : NULL;
}

static bool is_start(const struct code_returns *r, int64_t off)
{
	const struct code_start *start;

	if (r->answers[off])
		return true;
	start = start_at(r, off);
	return start && start->certain;
}

/* Behind the padding at `off`, if a function may begin there; else 0. */
static uint32_t behind_padding(const struct code_returns *r, uint32_t off)
{
	const uint32_t padded = x86_padding(r->piece.code, r->piece.n, off);

	return padded > off && (r->piece.va + padded) % ENTRY_ALIGN == 0 ? padded : 0;
}

/* Whether the instruction takes another stack: longjmp does, and switches between coroutines. */
static bool switches_stack(const struct x86_insn *insn)
{
	return (insn->op == X86_LOAD || insn->op == X86_MOVE) && insn->reg == X86_SP &&
	       insn->base != X86_SP && insn->base != X86_BP;
}

/*
 * Follows a path from `at`, and stores the branches that leave it. RETURNS_SURELY: it returns, or leads to
 * where that is not known; RETURNS_PERHAPS: it ends at a function that is being searched, or on another
 * stack.
 */
static enum returns path(struct code_returns *r, uint32_t entry, int64_t at, uint32_t generation)
{
	bool doubtful = false; /* it is on another stack, or behind a call and padding */

	while (at >= 0 && at < r->piece.n && r->budget) {
		const struct x86_insn insn = x86_decode(r->piece.code + at, r->piece.n - (size_t)at);
		const int64_t next = at + insn.len, target = next + insn.disp;
		enum returns answer;

		if (r->marks[at] == generation)
			return RETURNS_NEVER;
		r->marks[at] = generation;
		r->budget--;
		if (!insn.len || insn.op == X86_RETURN)
			return doubtful ? RETURNS_PERHAPS : RETURNS_SURELY;
		if (insn.op == X86_TRAP)
			return RETURNS_NEVER;
		doubtful |= switches_stack(&insn);
		if (insn.op == X86_JUMP_FAR_AWAY || insn.op == X86_CALL_FAR_AWAY) {
			answer = code_returns_slot(r, (uint32_t)at, &insn);
			if (answer == RETURNS_NEVER)
				return RETURNS_NEVER;
			if (insn.op == X86_JUMP_FAR_AWAY)
				return doubtful ? RETURNS_PERHAPS : RETURNS_SURELY;
		}
		if (insn.op == X86_CALL && insn.disp) {
			answer = code_returns(r, target);
			if (answer != RETURNS_SURELY && target >= 0 && target < r->piece.n)
				return answer;
			if (answer == RETURNS_NEVER)
				return RETURNS_NEVER;
		}
		if (insn.op == X86_CALL || (insn.op == X86_CALL_FAR_AWAY && insn.len > 2)) {
			const uint32_t padded = next < r->piece.n ? behind_padding(r, (uint32_t)next) : 0;

			if (padded && padded < r->piece.n &&
			    (is_start(r, padded) || start_at(r, padded) ||
			     x86_begins_function(r->piece.code + padded, r->piece.n - padded)))
				return RETURNS_NEVER;
			doubtful |= padded != 0;
		}
		if (insn.op == X86_BRANCH && target >= 0 && target < r->piece.n)
			work_add(r, (uint32_t)target);
		at = next;
		if (insn.op != X86_JUMP)
			continue;
		if (target < 0 || target >= r->piece.n)
			return outside(r, target) == RETURNS_NEVER ? RETURNS_NEVER : RETURNS_SURELY;
		if (target != entry && is_start(r, target))
			return doubtful ? RETURNS_PERHAPS : code_returns(r, target);
		at = target;
	}
	return RETURNS_SURELY;
}

static enum returns search(struct code_returns *r, uint32_t entry)
{
	const uint32_t generation = ++r->generation;
	const size_t base = r->n_work;
	enum returns answer = RETURNS_NEVER;

	work_add(r, entry);
	while (r->n_work > base && answer != RETURNS_SURELY) {
		const enum returns one = path(r, entry, r->work[--r->n_work], generation);

		answer = one > answer ? one : answer;
	}
	r->n_work = base;
	return answer;
}

enum returns code_returns(struct code_returns *r, int64_t off)
{
	enum returns answer;

	if (off < 0 || off >= r->piece.n)
		return outside(r, off);
	if (r->answers[off] == SEARCHED)
		return RETURNS_PERHAPS;
	if (r->answers[off])
		return (enum returns)(r->answers[off] - 1);
	if (r->depth >= DEPTH_MAX || !r->budget)
		return RETURNS_SURELY;
	r->answers[off] = SEARCHED;
	r->depth++;
	answer = search(r, (uint32_t)off);
	r->depth--;
	/* an answer that depends on a function that is being searched is not kept */
	r->answers[off] = answer == RETURNS_PERHAPS && r->depth ? 0 : (uint8_t)(answer + 1);
	return answer;
}
