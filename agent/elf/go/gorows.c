// SPDX-License-Identifier: Apache-2.0
/*
 * The table gives, for each instruction, the distance of the stack pointer below its value at entry (the
 * depth), and functions save the frame pointer at a fixed place:
 *
 *	x86-64   CFA = sp + depth + 8   return address at CFA - 8       frame pointer at CFA - 16
 *	aarch64  CFA = sp + depth       at CFA - depth (x30 in a leaf)  at CFA - depth - 8
 *
 * Some functions of the runtime, all in assembly, need other rules:
 *
 * - Outermost functions (goexit, mstart, rt0_go, _rt0_*): there is no return address above them on the stack.
 *
 * - Signal trampolines (sigreturn__sigaction, before 1.19 sigreturn): the signal frame of the kernel is
 * above.
 *
 * - Functions that switch to the thread's own stack (g0) and back: systemstack, asmcgocall, cgocallback, and
 * nanotime1, walltime, time.now before they call the vDSO. The assembler marks them, like all functions that
 * write the stack pointer. They have the usual prologue, so until their epilogue the frame pointer is that of
 * their frame, on the stack that they came from. The functions that they call preserve it. So these functions
 * are unwound by the frame pointer, to whichever stack it points (CFA_SWITCH); their first instructions,
 * before there is a frame, and their last ones are unwound as usual. Up to Go 1.20 systemstack and
 * asmcgocall had no frame of their own; then unwinding by the frame pointer omits their caller, and the rule
 * says so.
 *
 * - Functions that leave a stack for good: mcall and morestack let the goroutine continue elsewhere or move
 * its   stack, gogo has jumped to another one. Once they have loaded the other stack pointer, the stack to
 * which the   old frame pointer points may be in use on another CPU. Go's own unwinder ends there, and since
 * 1.25 these   functions zero the frame pointer for that reason: they are the outermost frame of the new
 * stack.
 *
 * - asyncPreempt and sigpanic: a signal handler makes it look as if the instruction that the signal
 * interrupted had called them; the return address is that instruction itself (RULE_INTERRUPTS). On aarch64,
 * the handler pushes x30 before it replaces it, so that the interrupted function's stack pointer is 16 bytes
 * higher.
 */
#include "agent/elf/go/gorows.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/elf/file/arch.h"
#include "agent/elf/cfi/row_rule.h"
#include "agent/elf/go/gocode.h"

#define NAME_MAX_BYTES 40 /* longer than all names below */
#define SWITCH_BYTES 1024 /* bytes of such a function in which the switch is searched */
#define ARM64_PUSHED_BYTES 16
#define CACHED_DEPTHS 512 /* in units of 8 bytes; rules of these depths are looked up once */

enum go_kind {
	GO_PLAIN,
	GO_ROOT,
	GO_SIGNAL,
	GO_SWITCHES,   /* switches to another stack and back */
	GO_LEAVES,     /* switches to another stack for good */
	GO_INTERRUPTS, /* looks as if an interrupted instruction had called it */
};

struct gorows {
	struct row_spans *spans;
	struct gopclntab *table;
	struct gocode *code;
	enum go_prologue prologue;	    /* the kind that the compiler writes */
	int64_t cached[2][CACHED_DEPTHS];   /* rule + 1, by frame pointer saved or not, and by depth */
	int64_t none, root, signal, popped; /* indices of rules */
	int fatal;
};

/* One function while its rows are made. */
struct go_function {
	struct gopclntab_function fn;
	enum go_kind kind;
	size_t first;	     /* index of its first row */
	uint64_t start, end; /* range of the span */
	struct go_frame frame;
	bool framed;	    /* `frame` is set */
	uint64_t switch_at; /* GO_SWITCHES without a frame, GO_LEAVES: start of another stack */
};

static enum go_kind kind_by_name(const char *name)
{
	static const struct {
		const char *name;
		enum go_kind kind;
	} kinds[] = {
		{"runtime.goexit", GO_ROOT},
		{"runtime.mstart", GO_ROOT},
		{"runtime.rt0_go", GO_ROOT},
		{"runtime.sigreturn", GO_SIGNAL},
		{"runtime.sigreturn__sigaction", GO_SIGNAL},
		{"runtime.clone", GO_LEAVES}, /* the new thread begins on its own stack */
		{"runtime.mcall", GO_LEAVES},
		{"runtime.morestack", GO_LEAVES},
		{"runtime.gogo", GO_LEAVES},
		{"gogo", GO_LEAVES},
		{"runtime.asyncPreempt", GO_INTERRUPTS},
		{"runtime.sigpanic", GO_INTERRUPTS},
		{"runtime.sigpanic0", GO_INTERRUPTS},
		/* for tables without flags */
		{"runtime.systemstack", GO_SWITCHES},
		{"runtime.asmcgocall", GO_SWITCHES},
		{"runtime.cgocallback", GO_SWITCHES},
		{"runtime.nanotime1", GO_SWITCHES},
		{"runtime.walltime1", GO_SWITCHES},
	};

	if (strncmp(name, "_rt0_", 5) == 0 && !strstr(name, "_lib"))
		return GO_ROOT; /* the entry point; the dynamic loader calls that of a library */
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (strcmp(name, kinds[i].name) == 0)
			return kinds[i].kind;
	}
	return GO_PLAIN;
}

static bool is_compiled(const struct gorows *g, const struct gopclntab_function *fn)
{
	return g->table->layout != GOPCLNTAB_1_16 && !(fn->flags & GO_FLAG_ASM);
}

static enum go_kind kind_of(const struct gorows *g, const struct gopclntab_function *fn)
{
	char name[NAME_MAX_BYTES];

	if (is_compiled(g, fn) && fn->id == 0)
		return GO_PLAIN;
	gopclntab_name(g->table, fn->name, name, sizeof(name));
	enum go_kind kind = kind_by_name(name);
	if (is_compiled(g, fn))
		return kind == GO_INTERRUPTS ? kind : GO_PLAIN;
	if (kind == GO_SIGNAL && elf_image_machine(g->code->img) != EM_X86_64)
		kind = GO_PLAIN; /* signal handlers return to the vDSO */
	if (kind == GO_LEAVES && g->table->layout != GOPCLNTAB_1_16 && !(fn->flags & GO_FLAG_SPWRITE))
		return GO_PLAIN; /* runtime.gogo, which only jumps to gogo */
	if (kind != GO_PLAIN)
		return kind;
	/* Go's own tracebacks end at a signal handler; here they do not */
	if ((fn->flags & GO_FLAG_TOPFRAME) && strcmp(name, "runtime.sigtramp") != 0)
		return GO_ROOT;
	return fn->flags & GO_FLAG_SPWRITE ? GO_SWITCHES : GO_PLAIN;
}

static struct elf_rule x86_rule(int32_t depth, bool saved)
{
	struct elf_rule rule = {.cfa_kind = CFA_REG_OFF, .cfa_reg = X86_RSP, .cfa_off = depth + 8};

	rule.ra = (struct elf_reg_rule){.kind = REG_CFA_OFF, .off = -8};
	if (saved)
		rule.fp = (struct elf_reg_rule){.kind = REG_CFA_OFF, .off = -16};
	return rule;
}

static struct elf_rule arm64_rule(int32_t depth, bool saved, bool interrupts)
{
	const int32_t up = depth + (interrupts ? ARM64_PUSHED_BYTES : 0);
	struct elf_rule rule = {.cfa_kind = CFA_REG_OFF, .cfa_reg = ARM64_SP, .cfa_off = up};

	if (depth > 0)
		rule.ra = (struct elf_reg_rule){.kind = REG_CFA_OFF, .off = -up};
	if (saved)
		rule.fp = (struct elf_reg_rule){.kind = REG_CFA_OFF, .off = -up - 8};
	return rule;
}

/*
 * Makes the rule that follows the frame record at the frame pointer. `depth` is that of the record's frame;
 * -1: the function has no frame, so that the record is its caller's.
 */
static int64_t switch_rule(struct gorows *g, int32_t depth)
{
	bool x86 = elf_image_machine(g->code->img) == EM_X86_64;
	int32_t bytes = x86 ? 16 : depth + 8; /* from the frame record to the CFA */
	const struct elf_rule rule = {
		.cfa_kind = CFA_SWITCH,
		.cfa_reg = x86 ? X86_RBP : ARM64_X29,
		.cfa_off = bytes,
		.cfa_add = depth < 0,
		.fp = {.kind = REG_CFA_OFF, .off = -bytes},
		.ra = {.kind = REG_CFA_OFF, .off = -bytes + 8},
	};

	if (!x86 && (depth < 0 || depth > INT32_MAX - 8))
		return g->none;
	return ruleset_intern(&g->spans->out.rules, &rule);
}

static int64_t depth_rule(struct gorows *g, int32_t depth, bool saved, bool interrupts)
{
	bool x86 = elf_image_machine(g->code->img) == EM_X86_64;
	bool cached = depth % 8 == 0 && depth / 8 < CACHED_DEPTHS && !interrupts;
	int64_t *slot = cached ? &g->cached[saved][depth / 8] : NULL;

	if (slot && *slot)
		return *slot - 1;
	struct elf_rule rule = x86 ? x86_rule(depth, saved) : arm64_rule(depth, saved, interrupts);
	rule.flags = interrupts ? RULE_INTERRUPTS : 0;
	int64_t index = ruleset_intern(&g->spans->out.rules, &rule);
	if (slot && index >= 0)
		*slot = index + 1;
	return index;
}

static void put_row(struct gorows *g, const struct go_function *f, uint64_t at, int64_t rule)
{
	if (rule < 0)
		g->fatal = (int)rule;
	else
		g->fatal = cfi_output_add_index(&g->spans->out, (uint32_t)(at - f->start), (uint32_t)rule);
}

/*
 * True for pop %r12 before `at`: rawVforkSyscall hides its return address from the child process, which
 * shares its stack.
 */
static bool pops_return_address(struct gorows *g, uint64_t at)
{
	const uint8_t *code = at < 2 ? NULL : gocode_at(g->code, at - 2, 2);

	return elf_image_machine(g->code->img) == EM_X86_64 && code && code[0] == 0x41 && code[1] == 0x5c;
}

/* Returns the rule at `at`; *until receives the latest address up to which it may apply. */
static int64_t rule_at(struct gorows *g, const struct go_function *f, uint64_t at, int32_t depth,
		       uint64_t *until)
{
	bool framed = f->framed && depth >= 8;

	*until = UINT64_MAX;
	if (f->kind == GO_ROOT)
		return g->root;
	if (f->kind == GO_SIGNAL)
		return g->signal;
	if (at >= f->switch_at)
		return f->kind == GO_LEAVES ? g->root : switch_rule(g, -1);
	*until = f->switch_at;
	if (f->kind == GO_SWITCHES && framed && at >= f->frame.set)
		return switch_rule(g, depth);
	if (depth == -8 && pops_return_address(g, at))
		return g->popped;
	if (depth < 0 || depth > INT32_MAX - 8 - ARM64_PUSHED_BYTES)
		return g->none;
	uint64_t next = at < f->frame.saved ? f->frame.saved : f->frame.set;
	if (framed && at < next && next < *until)
		*until = next;
	return depth_rule(g, depth, framed && at >= f->frame.saved, f->kind == GO_INTERRUPTS);
}

/* Finds the first frame of the function, if the prologue makes one. */
static void find_frame(struct gorows *g, struct go_function *f, uint64_t at, int32_t depth)
{
	enum go_prologue prologue = g->prologue;

	if (!is_compiled(g, &f->fn))
		prologue = gocode_prologue(g->code, at, depth);
	if (prologue == GO_PROLOGUE_NONE)
		return;
	f->frame = gocode_frame(prologue, at, depth);
	f->framed = true;
	if (f->kind == GO_SWITCHES)
		f->switch_at = UINT64_MAX;
}

/* The address from which the function uses another stack, as far as its code shows it. */
static uint64_t find_switch(struct gorows *g, const struct go_function *f)
{
	uint64_t end = f->fn.end - f->fn.start > SWITCH_BYTES ? f->fn.start + SWITCH_BYTES : f->fn.end;

	if (f->kind != GO_SWITCHES && f->kind != GO_LEAVES)
		return UINT64_MAX;
	uint64_t at = gocode_stack_switch(g->code, f->fn.start, end);
	/* not found: it may be at any address */
	return at == end ? f->fn.start : at;
}

static const char *write_rows(struct gorows *g, struct go_function *f)
{
	struct gopclntab_values v;
	bool seen = false;
	uint64_t from, until;

	gopclntab_depths(g->table, &f->fn, NULL, 0, &v);
	f->end = f->fn.start;
	while (f->end < f->fn.end && gopclntab_values_next(&v, &from)) {
		uint64_t to = v.pc < f->fn.end ? v.pc : f->fn.end;

		if (v.value != 0 && !seen) {
			seen = true;
			find_frame(g, f, from, v.value);
		}
		f->end = to;
		if (f->kind == GO_SIGNAL && from == f->fn.start)
			from = f->start;
		for (; from < to && g->fatal == 0; from = until) {
			put_row(g, f, from, rule_at(g, f, from, v.value, &until));
			until = until < to ? until : to;
		}
	}
	return f->end > f->fn.start ? NULL : "no stack depths in the function table";
}

/* Adds the rows of a function. NULL, or what is wrong with it. */
static const char *read_function(struct gorows *g, struct go_function *f)
{
	if (f->fn.end - f->fn.start > UINT32_MAX)
		return "function is larger than 4 GiB";
	if (!row_spans_clip(g->spans, f->fn.start, &f->fn.end))
		return "function is not in an executable segment";
	f->kind = kind_of(g, &f->fn);
	f->frame = gocode_frame(GO_PROLOGUE_NONE, 0, 0);
	f->switch_at = find_switch(g, f);
	/* the kernel set it as the handler's return address, so a lookup of pc - 1 is one byte before it */
	f->start = f->fn.start - (f->kind == GO_SIGNAL);
	f->first = g->spans->out.n_rows;
	return write_rows(g, f);
}

static int read_functions(struct gorows *g)
{
	for (uint64_t i = 0; i < g->table->n_functions && g->fatal == 0; i++) {
		struct go_function f = {0};
		const char *error = "function record is damaged";

		if (gopclntab_function(g->table, i, &f.fn) == 0) {
			if (f.fn.start == f.fn.end || f.fn.pcsp == 0)
				continue;
			error = read_function(g, &f);
		}
		g->spans->n_functions++;
		if (error)
			row_spans_skip(g->spans, ELF_GOPCLNTAB, i, error);
		else if (g->fatal == 0)
			g->fatal = row_spans_add(g->spans, f.start, f.end, f.first, ELF_GOPCLNTAB);
	}
	return g->fatal;
}

static int64_t rule_of_kind(struct row_spans *spans, enum cfa_kind kind, enum reg_rule_kind ra)
{
	struct elf_rule rule = {.cfa_kind = (uint8_t)kind, .ra = {.kind = (uint8_t)ra}};

	if (kind == CFA_UNDEFINED)
		rule.cfa_reg = RULE_NO_REG;
	return ruleset_intern(&spans->out.rules, &rule);
}

static int64_t popped_rule(struct row_spans *spans)
{
	const struct elf_rule rule = {
		.cfa_kind = CFA_REG_OFF,
		.cfa_reg = X86_RSP,
		.ra = {.kind = REG_REGISTER, .reg = X86_R12},
	};

	return ruleset_intern(&spans->out.rules, &rule);
}

static int make_rules(struct gorows *g)
{
	g->root = rule_of_kind(g->spans, CFA_UNDEFINED, REG_UNDEFINED);
	g->signal = ruleset_intern(&g->spans->out.rules, &row_rule_x86_signal);
	g->popped = popped_rule(g->spans);
	return g->root < 0 || g->signal < 0 || g->popped < 0 ? -ENOMEM : 0;
}

int gorows_read(struct row_spans *spans, const struct elf_image *img)
{
	_cleanup_free_ struct gorows *g = calloc(1, sizeof(*g));
	_cleanup_free_ struct gocode *code = calloc(1, sizeof(*code));
	_cleanup_(gopclntab_fini) struct gopclntab table = {0};
	int r;

	if (!g || !code)
		return -ENOMEM;
	r = gopclntab_open(&table, img);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	code->img = img;
	*g = (struct gorows){.spans = spans, .table = &table, .code = code};
	r = gopclntab_load(&table);
	if (r < 0)
		return r;
	r = gocode_find_text(&table, &g->prologue);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	r = make_rules(g);
	return r < 0 ? r : read_functions(g);
}
