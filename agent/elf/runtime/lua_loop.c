// SPDX-License-Identifier: Apache-2.0
/*
 * luaV_execute is hidden, but it is by far the largest function of Lua: the file's largest one, unless the
 * file has symbols. It begins by saving the six registers that calls preserve. A function that calls it gets
 * the state as its first argument, needs it afterwards, and so keeps it in one of these registers, or on its
 * stack. That register is written once, from the argument: then its value at the call is the state, and the
 * loop's frame has it.
 *
 * The function that begins a coroutine jumps to the loop instead, so that the loop returns to
 * luaD_rawrunprotected, which calls functions through a pointer, and which makes the state's errorJmp point
 * to its own frame.
 *
 * The functions that resume a coroutine are passed to luaD_rawrunprotected, so their address is taken by an
 * instruction. Those that call a function are not.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/cfi/frame_rule.h"
#include "agent/elf/cfi/frame_section.h"
#include "agent/elf/code/x86.h"
#include "agent/elf/file/arch.h"
#include "agent/elf/file/definition.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/runtime/lua.h"

#define TEXT_BYTES_MAX (32u << 20)
#define LOOP_BYTES_MIN 2048u
#define LOOP_BYTES_MAX (256u << 10)
#define CALLER_BYTES_MAX 4096u
#define PROLOGUE_BYTES_MAX 96u
#define CALLS_MAX 16u /* of the loop that are looked at */
#define SITES_MIN 2u
#define STORES_MIN 1u /* of the next instruction by the loop; from 5.4 on, many instructions have one */
#define STORES_MIN_5_4 8u
#define CALL 0xe8

#define BIT(n) (1u << (n))
#define PRESERVED (BIT(X86_BX) | BIT(X86_BP) | BIT(12) | BIT(13) | BIT(14) | BIT(15))

struct range {
	uint64_t start, end;
};

/* The file's code, and what was found in it. */
struct finding {
	struct lua_facts *facts;
	struct cfi_section section;
	uint8_t *text; /* of one segment */
	uint64_t text_va, text_bytes;
	int32_t saved[X86_REGS]; /* by the loop: offset of a register from the CFA; 0: not saved */
};

/* Where a function keeps its first argument. */
struct argument {
	uint32_t regs; /* bit n: in register n */
	int32_t slot;  /* at that offset from the stack pointer; -1: not there */
};

static const uint8_t *code_at(const struct finding *w, uint64_t va)
{
	return w->text + (va - w->text_va);
}

static bool has_code(const struct finding *w, struct range r)
{
	return r.start < r.end && r.start >= w->text_va && r.end - w->text_va <= w->text_bytes;
}

static bool leaves(const struct x86_insn *i)
{
	return i->op == X86_JUMP || i->op == X86_JUMP_FAR_AWAY || i->op == X86_RETURN || i->op == X86_TRAP;
}

static bool calls(const struct x86_insn *i)
{
	return i->op == X86_CALL || i->op == X86_CALL_FAR_AWAY;
}

/* Decodes the instruction at *at, and moves on. False: the function's end, or an unknown instruction. */
static bool next_insn(const struct finding *w, struct range f, uint64_t *at, struct x86_insn *ret)
{
	if (*at >= f.end)
		return false;
	x86_read(ret, code_at(w, *at), f.end - *at);
	*at += ret->len;
	return ret->len != 0;
}

/* Which registers the loop saves where. 0; -ENOENT: it does not begin as compilers make it. */
static int find_saved(struct finding *w, struct range loop)
{
	struct range prologue = {loop.start, loop.start + PROLOGUE_BYTES_MAX};
	uint64_t at = loop.start;
	uint32_t written = 0, all = 0;
	int32_t offset = -16;
	struct x86_insn i;

	while (next_insn(w, prologue, &at, &i) && !leaves(&i) && !calls(&i) && i.op != X86_BRANCH) {
		if (i.op == X86_PUSH && i.reg < X86_REGS) {
			if (!(written & BIT(i.reg)))
				w->saved[i.reg] = offset;
			offset -= 8;
			all |= BIT(i.reg);
		} else if (i.op == X86_ADD && i.reg == X86_SP) {
			w->facts->loop_body = at;
			return (all & PRESERVED) == PRESERVED ? 0 : -ENOENT;
		}
		written |= i.writes;
	}
	return -ENOENT;
}

/* The argument as the function's beginning stores it: up to where its own register is used otherwise. */
static struct argument argument_first(const struct finding *w, struct range f)
{
	struct argument a = {.slot = -1};
	uint64_t at = f.start;
	struct x86_insn i;

	while (next_insn(w, f, &at, &i) && !leaves(&i) && !calls(&i)) {
		if (i.op == X86_MOVE && i.base == X86_DI && i.reg < X86_REGS)
			a.regs |= BIT(i.reg) & PRESERVED;
		if (i.op == X86_STORE && i.reg == X86_DI && i.base == X86_SP && a.slot < 0 && i.disp >= 0 &&
		    i.disp <= LUA_OFFSET_MAX)
			a.slot = i.disp;
		if (i.writes & BIT(X86_DI))
			break;
	}
	return a;
}

/* The same, without what the function writes again, other than to give its caller's registers back. */
static struct argument argument_of(const struct finding *w, struct range f)
{
	struct argument a = argument_first(w, f);
	uint32_t once = 0;
	unsigned n_stores = 0;
	uint64_t at = f.start;
	struct x86_insn i;

	while (next_insn(w, f, &at, &i)) {
		bool gives_back = i.op == X86_POP || (i.op == X86_LOAD && i.base == X86_SP);

		n_stores += i.op == X86_STORE && i.base == X86_SP && i.disp == a.slot;
		if (gives_back)
			continue;
		a.regs &= ~(i.writes & once);
		once |= i.writes;
	}
	if (at < f.end || n_stores != 1)
		a.slot = -1;
	if (at < f.end)
		a.regs = 0;
	return a;
}

/* Adds where the state is when the loop returns to `va`. */
static void add_site(struct finding *w, uint64_t va, const struct argument *a, bool resumes)
{
	struct lua_facts *f = w->facts;
	int32_t offset = a->slot;

	for (unsigned reg = 0; reg < X86_REGS; reg++)
		if (a->regs >> reg & 1 && w->saved[reg])
			offset = w->saved[reg];
	if (offset == -1 || offset % 8 || f->n_sites >= LUA_SITES_MAX)
		return;
	f->sites[f->n_sites++] = (struct lua_site){va, offset, resumes};
}

/* Whether the code has an instruction whose result is the address: lea distance(%rip), register. */
static bool is_address_taken(const struct finding *w, uint64_t va)
{
	for (uint64_t i = 0; i + 7 <= w->text_bytes; i++) {
		const uint8_t *at = w->text + i;
		int32_t distance;

		if ((at[0] & 0xfb) != 0x48 || at[1] != 0x8d || (at[2] & 0xc7) != 0x05)
			continue;
		memcpy(&distance, at + 3, sizeof distance);
		if (w->text_va + i + 7 + (uint64_t)(int64_t)distance == va)
			return true;
	}
	return false;
}

/* The functions that call the loop. 0, -ENOMEM. */
static int find_callers(struct finding *w, struct range loop)
{
	_cleanup_free_ struct frame_query *q = calloc(CALLS_MAX, sizeof *q);
	size_t n = 0;
	int r;

	if (!q)
		return -ENOMEM;
	for (uint64_t i = 0; i + 5 <= w->text_bytes && n < CALLS_MAX; i++) {
		int32_t distance;

		if (w->text[i] != CALL)
			continue;
		memcpy(&distance, w->text + i + 1, sizeof distance);
		if (w->text_va + i + 5 + (uint64_t)(int64_t)distance == loop.start)
			q[n++] = (struct frame_query){.va = w->text_va + i, .error = -ENOENT};
	}
	r = frame_rules_in_section(&w->section, q, n);
	for (size_t i = 0; r == 0 && i < n; i++) {
		const struct range f = {q[i].fde_start, q[i].fde_end};
		struct argument a;

		if (q[i].error || !has_code(w, f) || f.end - f.start > CALLER_BYTES_MAX)
			continue;
		a = argument_of(w, f);
		add_site(w, q[i].va + 5, &a, is_address_taken(w, f.start));
	}
	return r;
}

/* Whether the function sets the word `error_jump` of its first argument. */
static bool sets_error_jump(const struct finding *w, struct range f)
{
	uint32_t regs = BIT(X86_DI); /* that have the argument */
	uint64_t at = f.start;
	struct x86_insn i;

	while (next_insn(w, f, &at, &i) && !leaves(&i) && !calls(&i)) {
		if (i.op == X86_STORE && i.base < X86_REGS && regs >> i.base & 1 &&
		    i.disp == w->facts->layout.error_jump)
			return true;
		regs &= ~(uint32_t)i.writes;
		if (i.op == X86_MOVE && i.base < X86_REGS && i.reg < X86_REGS && regs >> i.base & 1)
			regs |= BIT(i.reg);
	}
	return false;
}

/* A function that may be luaD_rawrunprotected: its calls through a pointer. */
static void find_indirect_calls(struct finding *w, struct range f)
{
	uint64_t at = f.start;
	struct x86_insn i;
	struct argument a;

	if (!has_code(w, f) || f.end - f.start > CALLER_BYTES_MAX || !sets_error_jump(w, f))
		return;
	a = argument_of(w, f);
	while (next_insn(w, f, &at, &i))
		if (i.op == X86_CALL_FAR_AWAY)
			add_site(w, at, &a, false);
}

/* Calls `visit` for each function that the call-frame information has. */
static void each_function(struct finding *w, void (*visit)(struct finding *w, struct range f, void *data),
			  void *data)
{
	struct cfi_entry entry;
	uint64_t offset = 0;

	while (entry_next(&w->section, &offset, &entry) == 1) {
		struct cfi_cie cie;
		struct cfi_fde fde;

		if (entry.is_cie)
			continue;
		entry_cie(&w->section, entry.cie, &cie);
		if (!cie.error && !entry_fde(&w->section, &cie, &entry, &fde))
			visit(w, (struct range){fde.start, fde.end}, data);
	}
}

static void visit_indirect(struct finding *w, struct range f, void *data)
{
	(void)data;
	find_indirect_calls(w, f);
}

static void visit_largest(struct finding *w, struct range f, void *data)
{
	struct range *largest = data;

	(void)w;
	if (f.end - f.start > largest->end - largest->start)
		*largest = f;
}

/* 0, -ENOENT, -ENOMEM. */
static int find_loop(struct finding *w, struct elf_image *img, struct range *ret)
{
	struct elf_definition d = {.name = "luaV_execute"};
	int r = elf_definitions_find_static(img, &d, 1);

	if (r < 0)
		return r;
	*ret = (struct range){0, 0};
	if (d.found && d.bytes)
		*ret = (struct range){d.va, d.va + d.bytes};
	else
		each_function(w, visit_largest, ret);
	return ret->end > ret->start && ret->end - ret->start >= LOOP_BYTES_MIN &&
			       ret->end - ret->start <= LOOP_BYTES_MAX
		       ? 0
		       : -ENOENT;
}

/* 0, -ENOENT, -ENOMEM. */
static int read_text(struct finding *w, const struct elf_image *img, uint64_t va)
{
	const struct elf_segment *s = elf_image_segment_at(img, va);

	if (!s || !s->executable || s->file_bytes > TEXT_BYTES_MAX)
		return -ENOENT;
	w->text = malloc(s->file_bytes);
	if (!w->text)
		return -ENOMEM;
	w->text_va = s->va;
	w->text_bytes = s->file_bytes;
	return elf_image_read_code(img, s->va, w->text, s->file_bytes) < 0 ? -ENOENT : 0;
}

/*
 * Whether the loop stores its next instruction where functions have it, and which register has that mostly.
 */
static bool find_instruction(struct finding *w, struct range loop)
{
	static const uint8_t dwarf[X86_REGS] = {
		[X86_BX] = 3, [X86_BP] = 6, [12] = 12, [13] = 13, [14] = 14, [15] = 15};
	unsigned counts[X86_REGS] = {0}, total = 0, best = 0;
	uint64_t at = loop.start;
	struct x86_insn i;

	while (next_insn(w, loop, &at, &i)) {
		if (i.op != X86_STORE || i.base == X86_SP || i.reg >= X86_REGS ||
		    i.disp != w->facts->layout.instruction)
			continue;
		counts[i.reg]++;
		total++;
	}
	for (unsigned reg = 0; reg < X86_REGS; reg++)
		if (counts[reg] > counts[best])
			best = reg;
	/* before 5.4 the memory has it at any time */
	w->facts->leaf_register = w->facts->layout.base ? 0 : dwarf[best];
	return total >= (w->facts->layout.base ? STORES_MIN : STORES_MIN_5_4);
}

static int find_all(struct finding *w, struct elf_image *img)
{
	struct range loop;
	int r = find_loop(w, img, &loop);

	if (r == 0)
		r = read_text(w, img, loop.start);
	if (r == 0 && !has_code(w, loop))
		r = -ENOENT;
	if (r == 0)
		r = find_saved(w, loop);
	if (r == 0 && !find_instruction(w, loop))
		r = -ENOENT;
	if (r == 0)
		r = find_callers(w, loop);
	if (r < 0)
		return r;
	if (w->facts->n_sites < SITES_MIN)
		return -ENOENT;
	each_function(w, visit_indirect, NULL);
	w->facts->loop_start = loop.start;
	w->facts->loop_end = loop.end;
	return 0;
}

int lua_loop_find(struct lua_facts *f, struct elf_image *img)
{
	struct finding w = {.facts = f};
	int r;

	if (elf_arch(elf_image_machine(img)) != &elf_arch_x86_64 || frame_section_eh(img, &w.section) < 0)
		return -ENOENT;
	r = find_all(&w, img);
	free(w.text);
	return r;
}
