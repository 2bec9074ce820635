// SPDX-License-Identifier: Apache-2.0
/*
 * A baseline function begins with `mov ebx, size of the frame`, `mov r12, its bytecode` and the call: of an
 * address, or through the table that r13 points to. No code with the calling convention of C begins so, as it
 * would have to preserve rbx and r12 first.
 *
 * A regular expression is recognised by its jump to where the record is made, if what the jump skips does not
 * seem to contain the end of another function, and a jump behind the record leads back into it.
 *
 * All code of such a function works for its one frame. Its end is reached when an instruction does not
 * continue, nothing jumps to what follows, and that is padding, or the head of another object.
 */
#include "agent/elf/code/v8_code.h"

#include <string.h>

#include "agent/elf/code/extent.h"
#include "agent/elf/code/x86.h"

#define MOV_EBX 0xbb
#define MOV_R12_BYTES 10u      /* mov r12, imm64 */
#define JUMP_BYTES 5u	       /* jmp rel32 */
#define SKIPPED_MAX (1u << 16) /* by the first jump of a regular expression */
#define BACK_BYTES 4096u       /* behind the record, in which something jumps back */

/* The length of a baseline function's code up to the end of the call; 0: the bytes are no such beginning. */
static uint32_t prologue_bytes(const uint8_t *code, uint32_t n)
{
	const uint32_t size = n >= 2 && code[0] == 0x33 && code[1] == 0xdb ? 2 : 5; /* xor ebx, ebx: 0 */
	const uint8_t *mov = code + size, *call = mov + MOV_R12_BYTES;

	if (n < size + MOV_R12_BYTES + 7 || (size == 5 && code[0] != MOV_EBX) || mov[0] != 0x49 ||
	    mov[1] != 0xbc)
		return 0;
	if (call[0] == 0xe8) /* call rel32 */
		return size + MOV_R12_BYTES + 5;
	if (call[0] == 0x41 && call[1] == 0xff && call[2] == 0x95) /* call [r13 + disp32] */
		return size + MOV_R12_BYTES + 7;
	return 0;
}

static bool is_end(uint8_t op)
{
	return op == X86_RETURN || op == X86_TRAP || op == X86_JUMP || op == X86_JUMP_FAR_AWAY;
}

static struct x86_insn decode(struct v8_code *c, uint32_t at, uint32_t end)
{
	const struct x86_insn insn = x86_decode(c->code + at, end - at);

	c->budget -= insn.len < c->budget ? insn.len : c->budget;
	return c->budget ? insn : (struct x86_insn){0};
}

/* Whether an instruction of [from, to) jumps to an offset of [low, high). */
static bool jumps_back(struct v8_code *c, uint32_t from, uint32_t to, uint32_t low, uint32_t high)
{
	while (from < to) {
		const struct x86_insn insn = decode(c, from, to);
		const int64_t target = (int64_t)from + insn.len + insn.disp;

		if (!insn.len)
			return false;
		if ((insn.op == X86_JUMP || insn.op == X86_BRANCH) && target >= low && target < high)
			return true;
		from += insn.len;
	}
	return false;
}

/* Whether [from, to) consists of instructions, and nowhere one that does not continue is before padding. */
static bool is_one(struct v8_code *c, uint32_t from, uint32_t to)
{
	bool ended = false;

	while (from < to) {
		const struct x86_insn insn = decode(c, from, to);

		if (!insn.len || (ended && x86_padding(c->code, to, from) > from))
			return false;
		ended = is_end(insn.op);
		from += insn.len;
	}
	return from == to;
}

/* The offset at which the regular expression that begins at `at` makes its record; 0: it is none. */
static uint32_t record_of(struct v8_code *c, uint32_t at)
{
	const uint32_t skipped = at + JUMP_BYTES;
	int32_t disp;
	uint32_t record, end;

	if (c->n - at < JUMP_BYTES || c->code[at] != 0xe9)
		return 0;
	memcpy(&disp, c->code + at + 1, sizeof disp);
	if (disp <= 0 || (uint32_t)disp > SKIPPED_MAX || (uint32_t)disp >= c->n - skipped)
		return 0;
	record = skipped + (uint32_t)disp;
	end = c->n - record > BACK_BYTES ? record + BACK_BYTES : c->n;
	return x86_makes_record(c->code + record, c->n - record) &&
			       jumps_back(c, record, end, skipped, record) && is_one(c, skipped, record)
		       ? record
		       : 0;
}

bool v8_code_find(struct v8_code *c, uint32_t from, struct v8_function *ret)
{
	for (from += (uint32_t)(-(c->va + from) % V8_CODE_ALIGN); from < c->n; from += V8_CODE_ALIGN) {
		const uint32_t bytes = prologue_bytes(c->code + from, c->n - from);
		const uint32_t record = bytes ? 0 : record_of(c, from);

		if (!bytes && !record)
			continue;
		*ret = (struct v8_function){from, from + (bytes ?: JUMP_BYTES), record};
		return true;
	}
	return false;
}

/*
 * Whether no function goes on at this offset: behind the end of a path, there is padding, or a pointer of
 * V8's heap, with which the next object begins; or another function or unused memory begins.
 */
static bool is_behind(const struct v8_code *c, uint32_t at, bool ended)
{
	const bool padded = ended && x86_padding(c->code, c->n, at) > at;
	uint64_t word;

	if ((c->va + at) % V8_CODE_ALIGN == 0 && prologue_bytes(c->code + at, c->n - at))
		return true;
	if (padded || c->n - at < sizeof word)
		return padded;
	memcpy(&word, c->code + at, sizeof word);
	return ended ? (c->va + at) % sizeof word == 0 && word & 1 && word >> 32 && word < 1ull << 47 : !word;
}

/* Whether the instruction changes rbp. */
static bool changes_record(const struct x86_insn *insn)
{
	switch (insn->op) {
	case X86_LEAVE:
		return true;
	case X86_POP:
	case X86_MOVE:
	case X86_LEA:
	case X86_LOAD:
	case X86_ADD:
	case X86_AND:
		return insn->reg == X86_BP || insn->writes & 1u << X86_BP;
	default:
		return insn->writes & 1u << X86_BP;
	}
}

/*
 * Whether the record is given up at `at`, and the function returns behind that: leave; ret, or pop rbp; ret
 * behind mov rsp, rbp. *ret: the offset of the return.
 */
static bool returns(const struct v8_code *c, uint32_t at, uint32_t *ret)
{
	const uint8_t *code = c->code + at;
	const bool pops = code[0] == 0x5d && at >= 3 && code[-3] == 0x48 &&
			  ((code[-2] == 0x8b && code[-1] == 0xe5) || (code[-2] == 0x89 && code[-1] == 0xec));

	*ret = at + 1;
	return (code[0] == 0xc9 || pops) && *ret < c->n && (code[1] == 0xc3 || code[1] == 0xc2);
}

struct follower {
	const struct v8_code *c;
	int (*row)(uint32_t off, enum v8_frame frame, void *data);
	void *data;
	uint32_t at, reached; /* the farthest that a jump leads to */
	bool ended;	      /* what is before `at` does not continue */
	bool known;	      /* the function goes on at `at` */
};

static int pass_record(struct follower *w)
{
	int r = w->row(w->at, V8_FRAME_NONE, w->data);

	if (r == 0)
		r = w->row(w->at + 1, V8_FRAME_PUSHED, w->data);
	w->at += X86_RECORD_BYTES;
	w->ended = false;
	return r == 0 ? w->row(w->at, V8_FRAME_RECORD, w->data) : r;
}

static int pass_return(struct follower *w)
{
	uint32_t ret;
	int r;

	w->known = returns(w->c, w->at, &ret);
	if (!w->known)
		return 0;
	r = w->row(ret, V8_FRAME_NONE, w->data);
	w->at = ret + x86_decode(w->c->code + ret, w->c->n - ret).len;
	w->ended = true;
	return r == 0 && w->at < w->c->n ? w->row(w->at, V8_FRAME_RECORD, w->data) : r;
}

/* Passes what is at `at`. 0; -errno of `row`. */
static int pass(struct follower *w, uint32_t record)
{
	const struct v8_code *c = w->c;
	const struct x86_insn insn = x86_decode(c->code + w->at, c->n - w->at);
	const int64_t target = (int64_t)w->at + insn.len + insn.disp;

	w->known =
		insn.len && insn.len <= c->n - w->at && !is_behind(c, w->at, w->ended && w->at >= w->reached);
	if (!w->known)
		return 0;
	if (record && w->at == record)
		return pass_record(w);
	if (changes_record(&insn))
		return pass_return(w);
	w->at += insn.len;
	w->ended = is_end(insn.op);
	if ((insn.op == X86_JUMP || insn.op == X86_BRANCH) && target > w->reached && target < c->n)
		w->reached = (uint32_t)target;
	if (insn.op == X86_JUMP_FAR_AWAY)
		w->at = code_behind_table(c->va, c->code, c->n, w->at, &w->reached);
	return 0;
}

int v8_code_rows(const struct v8_code *c, const struct v8_function *f,
		 int (*row)(uint32_t off, enum v8_frame frame, void *data), void *data, uint32_t *ret_end)
{
	struct follower w = {
		.c = c, .row = row, .data = data, .at = f->frame, .reached = f->record, .known = true};
	int r = row(f->start, V8_FRAME_NONE, data);

	if (r == 0 && f->frame < c->n)
		r = row(f->frame, V8_FRAME_RECORD, data);
	while (r == 0 && w.known && w.at < c->n)
		r = pass(&w, f->record);
	*ret_end = w.at < c->n ? w.at : c->n;
	return r;
}
