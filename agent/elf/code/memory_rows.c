// SPDX-License-Identifier: Apache-2.0
/*
 * The analysis finds what it can prove (asmrows.h). The rest of a function that begins by making a frame
 * record is stepped by that record: its bytes say that rbp is its own. The same holds behind the last such
 * beginning before an instruction of which nothing else is known, if nothing between them ends a function.
 * Functions of V8 that cannot be followed are recognised (v8_code.h), and left out of all this.
 */
#include "agent/elf/code/memory_rows.h"

#include <elf.h>
#include <errno.h>

#include "agent/base/cleanup.h"
#include "agent/elf/code/a64_memory.h"
#include "agent/elf/code/asmrows.h"
#include "agent/elf/code/extent.h"
#include "agent/elf/code/v8_code.h"
#include "agent/elf/code/x86.h"

#define DWARF_FP 6
#define DWARF_SP 7
#define ENTRY_ALIGN 16u
/* A runtime may check something before it makes the frame: the arguments, whether the code is still valid. */
#define RECORD_WITHIN 64u

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#else
#define MACHINE EM_NONE
#endif

uint16_t memory_rows_machine(void)
{
	return MACHINE;
}

static struct elf_rule none(enum no_rule why)
{
	return (struct elf_rule){.cfa_kind = CFA_NONE, .cfa_off = (int32_t)why};
}

/*
 * reg + off, with the return address below it; the caller's rbp in rbp, or `saved` bytes from the CFA.
 * `flags`: RULE_*.
 */
static struct elf_rule frame(uint8_t reg, int32_t off, int32_t saved, uint8_t flags)
{
	struct elf_rule rule = {.cfa_kind = CFA_REG_OFF, .cfa_reg = reg, .cfa_off = off, .flags = flags};

	rule.ra = (struct elf_reg_rule){.kind = REG_CFA_OFF, .off = -8};
	if (saved)
		rule.fp = (struct elf_reg_rule){.kind = REG_CFA_OFF, .off = saved};
	return rule;
}

/* Whether the instruction changes the stack or rbp, or what follows it does not run after it. */
static bool touches_frame(const struct x86_insn *insn)
{
	switch (insn->op) {
	case X86_OTHER:
	case X86_NOP:
	case X86_BRANCH:
	case X86_ADDRESS:
	case X86_CONSTANT:
	case X86_COMPARE:
	case X86_TABLE_ENTRY:
	case X86_STORE:
		return insn->writes & (1u << X86_SP | 1u << X86_BP);
	case X86_MOVE:
	case X86_LEA:
	case X86_LOAD:
	case X86_ADD:
	case X86_AND:
		return insn->reg == X86_SP || insn->reg == X86_BP ||
		       insn->writes & (1u << X86_SP | 1u << X86_BP);
	default:
		return true;
	}
}

/* Whether the instruction before the offset seems to be a return or a jump. */
static bool is_behind_end(const struct memory_code *c, uint32_t off)
{
	const uint8_t *code = c->code + off;

	return off == 0 || code[-1] == 0xc3 || (off >= 2 && code[-2] == 0xff && (code[-1] & 0xf8) == 0xe0) ||
	       (off >= 2 && code[-2] == 0xeb) || (off >= 5 && code[-5] == 0xe9);
}

/*
 * Whether a function begins at most RECORD_WITHIN bytes before the offset, at an aligned address, and has
 * not touched its frame up to there. Else the record may be one of a stack that was aligned before.
 */
static bool is_near_entry(const struct memory_code *c, uint32_t to)
{
	if (is_behind_end(c, to))
		return true;
	for (uint32_t from = to; to - from <= RECORD_WITHIN; from--) {
		uint32_t at = from;

		while ((c->va + from) % ENTRY_ALIGN == 0 && at < to) {
			const struct x86_insn insn = x86_decode(c->code + at, c->n - at);

			if (!insn.len || touches_frame(&insn))
				break;
			at += insn.len;
		}
		if ((c->va + from) % ENTRY_ALIGN == 0 && at == to)
			return true;
		if (from == 0)
			break;
	}
	return false;
}

/*
 * The frame record that is made before `to`, nearest to it, if the instructions from there on run up to
 * the one with the byte before `to`, so that one frame has them. `to` may be inside of a call, as return
 * addresses minus 1 are. False: there is none.
 */
static bool find_record(const struct memory_code *c, uint32_t to, uint32_t *ret)
{
	for (uint32_t at = to; at-- > 0;)
		if (x86_makes_record(c->code + at, c->n - at) && at + X86_RECORD_BYTES <= to &&
		    is_near_entry(c, at) &&
		    code_extent(c->va, c->code, c->n, at + X86_RECORD_BYTES, to) >= to) {
			*ret = at;
			return true;
		}
	return false;
}

/* Whether the function makes its frame record at its beginning: at the offset *ret. */
static bool begins_with_record(const struct memory_code *c, uint32_t *ret)
{
	uint32_t at = 0;

	while (at < c->n && at < RECORD_WITHIN) {
		const struct x86_insn insn = x86_decode(c->code + at, c->n - at);

		if (x86_makes_record(c->code + at, c->n - at)) {
			*ret = at;
			return true;
		}
		if (!insn.len || touches_frame(&insn))
			return false;
		at += insn.len;
	}
	return false;
}

/* Rows of [from, to): up to the record that is made at `record`, and behind it. */
static int add_made(struct memory_rows *r, uint32_t from, uint32_t to, uint32_t record, uint8_t flags)
{
	const struct {
		uint32_t until;
		struct elf_rule rule;
	} rows[] = {{record + 1, frame(DWARF_SP, 8, 0, flags)},
		    {record + X86_RECORD_BYTES, frame(DWARF_SP, 16, -16, flags)},
		    {UINT32_MAX, frame(DWARF_FP, 16, -16, flags)}};
	int e = 0;

	for (size_t i = 0; i < ARRAY_SIZE(rows) && e == 0; i++) {
		if (from < to && from < rows[i].until)
			e = memory_rows_add(r, from, &rows[i].rule);
		from = from > rows[i].until ? from : rows[i].until;
	}
	return e;
}

/*
 * Rows of [from, to), where the record that is made at `record` is the one of the frame up to where its
 * function seems to end. It may be made in a part of the function that the analysis knows: it does not go on
 * where nothing shows how, as behind the trap at which code begins that V8 enters in the middle (on-stack
 * replacement).
 */
static int add_record(struct memory_rows *r, const struct memory_code *c, uint32_t from, uint32_t to,
		      uint32_t record)
{
	const struct elf_rule pending = none(NO_RULE_PENDING);
	const uint32_t extent = code_extent(c->va, c->code, c->n, record + X86_RECORD_BYTES, to);
	/* what ran is an instruction, even if it looks like padding, or is unknown */
	const uint32_t behind = extent > c->wanted ? extent : c->wanted + 1, end = behind < to ? behind : to;
	int e = record > from ? memory_rows_add(r, from, &pending) : 0;

	if (e == 0)
		e = add_made(r, from > record ? from : record, end, record, RULE_CHECKED);
	return e == 0 && end < to ? memory_rows_add(r, end, &pending) : e;
}

/* Rows of [from, to), which the analysis does not know. What is listed as one function may be several. */
static int add_unknown(struct memory_rows *r, const struct memory_code *c, uint32_t from, uint32_t to)
{
	const uint8_t flags = memory_code_flags(c);
	const struct elf_rule by_record = frame(DWARF_FP, 16, -16, flags), refused = none(NO_RULE_REFUSED),
			      pending = none(NO_RULE_PENDING);
	uint32_t record;

	if (c->frame_pointer || (c->single && !begins_with_record(c, &record)))
		return memory_rows_add(r, from, &by_record);
	if (c->function && begins_with_record(c, &record))
		return add_made(r, from, to, record, flags);
	if (c->wanted < from || c->wanted >= to)
		return memory_rows_add(r, from, &pending);
	return find_record(c, c->wanted, &record) && (record >= from || record + X86_RECORD_BYTES <= from)
		       ? add_record(r, c, from, to, record)
		       : memory_rows_add(r, from, &refused);
}

/* Whether the code gives a record up at this offset: mov rsp, rbp; pop rbp, or leave. *ret: behind that. */
static bool gives_up_record(const struct memory_code *c, uint32_t at, uint32_t *ret)
{
	const uint8_t *code = c->code + at;
	const bool moves = c->n - at >= 4 && code[0] == 0x48 && code[3] == 0x5d &&
			   ((code[1] == 0x8b && code[2] == 0xe5) || (code[1] == 0x89 && code[2] == 0xec));

	*ret = at + (moves ? 4 : 1);
	return moves || code[0] == 0xc9;
}

/*
 * Whether the function is entered with the frame record of one that it replaces (on-stack replacement): it
 * gives one up, and makes none.
 */
static bool replaces_another(const struct memory_code *c)
{
	bool gives_up = false;
	struct x86_insn insn;
	uint32_t behind;

	for (uint32_t at = 0; at < c->n; at += insn.len) {
		insn = x86_decode(c->code + at, c->n - at);
		if (x86_makes_record(c->code + at, c->n - at))
			return false;
		gives_up |= gives_up_record(c, at, &behind);
		if (!insn.len)
			break;
	}
	return gives_up;
}

/* Rows of such a function: behind the record, up to the last return or jump that leads away. */
static int add_replacing(struct memory_rows *r, const struct memory_code *c)
{
	const uint8_t flags = memory_code_flags(c);
	const struct elf_rule by_record = frame(DWARF_FP, 16, -16, flags),
			      returns = frame(DWARF_SP, 8, 0, flags);
	uint32_t at = 0, behind, reached = 0;
	bool given_up = false;
	int e = memory_rows_add(r, 0, &by_record);

	while (e == 0 && at < c->n) {
		const struct x86_insn insn = x86_decode(c->code + at, c->n - at);
		const int64_t target = (int64_t)at + insn.len + insn.disp;

		if (!insn.len)
			return memory_rows_add(r, at, &by_record);
		if (gives_up_record(c, at, &behind)) {
			given_up = true;
			at = behind;
			e = at < c->n ? memory_rows_add(r, at, &returns) : 0;
			continue;
		}
		if (given_up && insn.op == X86_BRANCH && target > reached && target < c->n)
			reached = (uint32_t)target;
		at += insn.len;
		if (given_up && at > reached &&
		    (insn.op == X86_RETURN || insn.op == X86_JUMP || insn.op == X86_JUMP_FAR_AWAY)) {
			given_up = false;
			e = at < c->n ? memory_rows_add(r, at, &by_record) : 0;
		}
	}
	return e;
}

static const struct memory_analysis analysis = {asmrows_read_piece, add_unknown};

/* Adds the rows of [from, from + n), in which no function is recognised. */
static int add_piece(struct memory_rows *r, const struct memory_code *c, uint32_t from, uint32_t n)
{
	_cleanup_(memory_rows_fini) struct memory_rows part = {0};
	const struct memory_code piece = {
		.va = c->va + from,
		.code = c->code + from,
		.n = n,
		.function = c->function && !from,
		.single = c->single,
		.frame_pointer = c->frame_pointer,
		.wanted = c->wanted >= from && c->wanted - from < n ? c->wanted - from : n};
	int e = n ? memory_rows_analyse(&part, &piece, &analysis) : 0;

	for (size_t i = 0; i < part.n && e == 0; i++)
		e = memory_rows_add(r, from + part.v[i].off, &part.v[i].rule);
	return e;
}

struct recognised {
	struct memory_rows *rows;
	uint8_t flags; /* RULE_* */
};

static int add_recognised(uint32_t off, enum v8_frame is, void *data)
{
	const struct recognised *x = data;
	const struct elf_rule rule = is == V8_FRAME_NONE     ? frame(DWARF_SP, 8, 0, x->flags)
				     : is == V8_FRAME_PUSHED ? frame(DWARF_SP, 16, -16, x->flags)
							     : frame(DWARF_FP, 16, -16, x->flags);

	return memory_rows_add(x->rows, off, &rule);
}

int memory_rows_make(struct memory_rows *ret, const struct memory_code *code)
{
	_cleanup_(memory_rows_fini) struct memory_rows made = {0};
	struct v8_code v8 = {code->va, code->code, code->n, (uint64_t)code->n * V8_CODE_BUDGET};
	struct v8_function f;
	uint32_t at = 0;
	int r = 0;

	if (memory_rows_machine() == EM_AARCH64)
		return a64_memory_rows(ret, code);
	if (memory_rows_machine() != EM_X86_64)
		return -ENOTSUP;
	if (!code->n || code->n > MEMORY_CODE_MAX)
		return -EFBIG;
	while (r == 0 && v8_code_find(&v8, at, &f) && !(code->single && f.start)) {
		struct recognised x = {&made, f.start ? RULE_CHECKED : memory_code_flags(code)};

		r = add_piece(&made, code, at, f.start - at);
		if (r == 0)
			r = v8_code_rows(&v8, &f, add_recognised, &x, &at);
	}
	if (r == 0)
		r = code->single && !at && replaces_another(code) ? add_replacing(&made, code)
								  : add_piece(&made, code, at, code->n - at);
	if (r < 0)
		return r;
	*ret = made;
	made = (struct memory_rows){0};
	return 0;
}
