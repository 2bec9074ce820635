// SPDX-License-Identifier: Apache-2.0
/* Frames of LuaJIT: coroutines' stacks of values in a process's memory, also such as a tenant makes. */
#include "tests/bpf/runtime_process.h"

#define HEAP 0x50000000ull
#define HEAP_BYTES 0x80000ull
#define STATES HEAP /* 0x100 bytes each */
#define GLOBAL (HEAP + 0x1000)
#define FUNCTIONS (HEAP + 0x10000) /* a function, its code object with bytecode, and its lines */
#define FUNCTION_BYTES 0x1000ull
#define INSTRUCTIONS 200u
#define TEXT (HEAP + 0x40000)
#define VALUES (HEAP + 0x50000) /* the coroutines' stacks, 0x1000 bytes each */
#define NATIVE_STACK 0x70000000ull
#define BLOCK 0x400000ull
#define CPCALL 0x200 /* where C code without a frame returns to */
#define JIT_BASE 376u
#define NEXT 3 /* registers */
#define BASE 1
#define CALLEE 2
#define CALL 66u /* opcode */
#define FRAME 80u

enum way { C = 1, CONTINUATION, VARARG, PROTECTED_C = 5, PROTECTED };

static const struct runtime_walk walk_2_1 = {
	.salt = 0x1234567890abcdef,
	.runtime = RUNTIME_LUAJIT,
	.layout = 9,
	.shape = RUNTIME_SHAPE_VALUES,
	.leaf_register = NEXT,
	.leaf_base = BASE,
	.leaf_callee = CALLEE,
	.first = 32,
	.first_of = JIT_BASE,
	.thread = 16,
	.stack = 56,
	.stack_end = 48,
	.marker_first = 80,
	.frame_bytes = FRAME,
	.scope = 32,
	.content = 64,
	.content_bytes = 32,
	.first_line = 72,
	.file = 64,
	.bytes = 24,
	.lines = 80,
	.instructions = 104,
	.n_instructions = 12,
	.instruction_bytes = 4,
	.loop_start = BLOCK,
	.loop_bytes = 0x4000,
	.sites = {{.offset = -64}, {.offset = -56}, {.distance = CPCALL}},
};

static uint64_t state(unsigned i)
{
	return STATES + i * 0x100ull;
}

static uint64_t function(unsigned i)
{
	return FUNCTIONS + i * FUNCTION_BYTES;
}

static uint64_t code(unsigned i)
{
	return function(i) + 0x100;
}

/* The address of instruction `k` of function `i`. */
static uint64_t instruction(unsigned i, unsigned k)
{
	return code(i) + 104 + k * 4ull;
}

/* Function `i` begins at line 10 * i, instruction k is at line 10 * i + k. All of them call register 1. */
static void function_put(struct machine *m, unsigned i)
{
	uint64_t c = code(i), lines = function(i) + 0x800;

	machine_poke(m, function(i) + 8, 0x0800); /* type, then: it is Lua's */
	machine_poke(m, function(i) + 32, instruction(i, 0));
	machine_poke(m, c + 8, (uint64_t)INSTRUCTIONS << 32);
	machine_poke(m, c + 64, TEXT);
	machine_poke(m, c + 72, 250ull << 32 | 10 * i);
	machine_poke(m, c + 80, lines);
	for (unsigned k = 0; k < INSTRUCTIONS; k += 2)
		machine_poke(m, instruction(i, k), (uint64_t)(CALL | 1u << 8) << 32 | CALL | 1u << 8);
	for (unsigned k = 0; k < INSTRUCTIONS; k += 8) {
		uint64_t word = 0;

		for (unsigned b = 0; b < 8; b++)
			word |= (uint64_t)(k + b + 1) << 8 * b;
		machine_poke(m, lines + k, word);
	}
}

/* The first value of frame `i` of coroutine `s`: frames are 24 bytes apart, as functions of C are, too. */
static uint64_t base(unsigned s, unsigned i)
{
	return VALUES + s * 0x1000ull + 16 + 24ull * (i + 1);
}

#define NATIVE 100u /* in place of a function: it is C's */

/* Frame `i` of coroutine `s`: its function, and the way to the caller's frame. */
static void frame_put(struct machine *m, unsigned s, unsigned i, unsigned f, uint64_t way)
{
	machine_poke(m, base(s, i) - 16,
		     (0xfffbull << 48) | (f == NATIVE ? FUNCTIONS + 0xf000 : function(f)));
	machine_poke(m, base(s, i) - 8, way);
}

/* Calls of native code. */
static uint64_t by(enum way type)
{
	return 24u | type;
}

/* The coroutine, whose innermost frame was `innermost` when it was last stored, on a native stack frame. */
static void state_put(struct machine *m, unsigned s, unsigned innermost, uint64_t sp)
{
	machine_poke(m, state(s) + 8, 6u << 8);
	machine_poke(m, state(s) + 16, GLOBAL);
	machine_poke(m, state(s) + 32, base(s, innermost));
	machine_poke(m, state(s) + 48, VALUES + (s + 1) * 0x1000ull - 0x400);
	machine_poke(m, state(s) + 56, VALUES + s * 0x1000ull);
	machine_poke(m, state(s) + 80, sp | 1);
	machine_poke(m, VALUES + s * 0x1000ull, 0xfffcull << 48 | state(s));
}

static uint64_t native_sp(unsigned i)
{
	return NATIVE_STACK + 0x100 + i * 0x100ull;
}

/*
 * Coroutine 0: function 3, called by 2, called by C code, called by 1, which C code has called. Its native
 * frames are numbers 0 and 1.
 */
static struct machine *process_new(void)
{
	struct machine *m = machine_new();

	machine_memory(m, HEAP, HEAP_BYTES);
	machine_memory(m, NATIVE_STACK, 0x1000);
	machine_memory(m, BLOCK, 0x1000);
	machine_poke(m, TEXT + 24, 0x61756c2e6140); /* @a.lua */
	machine_poke(m, FUNCTIONS + 0xf000 + 8, 0x010800);
	for (unsigned i = 0; i < 8; i++)
		function_put(m, i);
	frame_put(m, 0, 0, NATIVE, by(PROTECTED_C));
	frame_put(m, 0, 1, 1, by(PROTECTED_C));
	frame_put(m, 0, 2, NATIVE, instruction(1, 11));
	frame_put(m, 0, 3, 2, by(C));
	frame_put(m, 0, 4, 3, instruction(2, 21));
	state_put(m, 0, 4, native_sp(0));
	walk_set(m, &walk_2_1);
	runtime_walk(m);
	return m;
}

/* The native walk passes the block's frame number `i`. */
static void block_pass(struct machine *m, unsigned i, unsigned s, uint64_t kept)
{
	struct unwind_state *t = &m->area.state;

	machine_poke(m, native_sp(i) + 16, state(s));
	machine_poke(m, native_sp(i) + 24, kept);
	t->window_len = 0;
	t->sp = t->tie_sp = native_sp(i);
	t->tie_cfa = native_sp(i) + FRAME;
	t->tie_ip = BLOCK + 0x300;
	t->n = 10 * i;
	luajit_loop();
	t->innermost = 0;
}

static void registers(struct machine *m, uint64_t next, uint64_t at, uint64_t callee)
{
	m->area.state.innermost = m->area.state.have_regs = 1;
	m->area.state.regs[NEXT] = next;
	m->area.state.regs[BASE] = at;
	m->area.state.regs[CALLEE] = callee;
}

struct want {
	unsigned native, end;
};

static void expect(struct machine *m, const unsigned *lines, unsigned n, const struct want *want,
		   unsigned n_segments)
{
	lua_walk();
	cr_assert_eq(m->area.runtime.part.n_words, 2 * n, "%u words", m->area.runtime.part.n_words);
	for (unsigned i = 0; i < n; i++) {
		cr_expect_eq(frame_runtime_of(words(m)[i * 2]), RUNTIME_LUAJIT);
		cr_expect_eq(words(m)[i * 2 + 1], lines[i], "frame %u: line %lu", i,
			     (unsigned long)words(m)[i * 2 + 1]);
	}
	cr_assert_eq(m->area.runtime.part.n_segments, n_segments, "%u segments",
		     m->area.runtime.part.n_segments);
	for (unsigned i = 0; i < n_segments; i++) {
		cr_expect_eq(segments(m)[i].native, want[i].native, "%u: native %u", i,
			     segments(m)[i].native);
		cr_expect_eq(segments(m)[i].end, want[i].end, "%u: end %u", i, segments(m)[i].end);
	}
	cr_expect_eq(m->area.runtime.part.whole, 1);
	machine_free(m);
}

/* The rest of process_new()'s native stack: the loops behind the innermost one. */
static void pass_rest(struct machine *m)
{
	block_pass(m, 1, 0, 0);
	block_pass(m, 2, 0, 0);
}

Test(luajit, interpreted)
{
	struct machine *m = process_new();

	registers(m, instruction(3, 31), base(0, 4), 0);
	block_pass(m, 0, 0, state(0));
	pass_rest(m);
	expect(m, (const unsigned[]){30 + 30, 20 + 20, 10 + 10}, 3,
	       (const struct want[]){{0, 4}, {10, 6}, {20, 6}}, 3);
}

/* Where the interpreter has called a helper, what memory has is of now. */
Test(luajit, a_helper_runs)
{
	struct machine *m = process_new();

	block_pass(m, 0, 0, instruction(3, 41));
	pass_rest(m);
	expect(m, (const unsigned[]){30 + 40, 40, 20}, 3, (const struct want[]){{0, 4}, {10, 6}, {20, 6}}, 3);
	m = process_new();
	block_pass(m, 0, 0, instruction(5, 41)); /* of another function: of an earlier time */
	pass_rest(m);
	expect(m, (const unsigned[]){0, 40, 20}, 3, (const struct want[]){{0, 4}, {10, 6}, {20, 6}}, 3);
}

/* In the midst of a call or a return, when the registers and the memory do not fit together. */
Test(luajit, in_the_midst_of_a_call)
{
	static const uint64_t caller = FUNCTIONS + 2 * FUNCTION_BYTES + 0x100 + 104, /* its bytecode */
		own = FUNCTIONS + 3 * FUNCTION_BYTES + 0x100 + 104;
	static const struct {
		const char *what;
		uint64_t next, kept, way;
		unsigned callee, n, lines[3];
	} cases[] = {
		{"the way is not stored yet", caller + 4 * 23, 0, 0x123456, 0, 2, {42, 20}},
		{"the function has returned", caller + 4 * 21, 0, 0, 0, 2, {40, 20}},
		{"native code's way is not stored yet", 24 | C, 0, 0x123456, 4, 0, {20}},
		{"a continuation is about to be stored",
		 24 | CONTINUATION,
		 own + 4 * 41,
		 0,
		 5,
		 3,
		 {70, 40, 20}},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const unsigned n = 2 * (cases[i].n ?: 2);
		struct machine *m = process_new();

		registers(m, cases[i].next, base(0, 4), cases[i].callee ? base(0, cases[i].callee) : 0);
		if (cases[i].way)
			machine_poke(m, base(0, 4) - 8, cases[i].way);
		if (!cases[i].n) { /* it is at the place of what native code calls */
			frame_put(m, 0, 3, NATIVE, instruction(1, 11));
			frame_put(m, 0, 2, 1, by(PROTECTED_C));
			frame_put(m, 0, 1, NATIVE, 48 | PROTECTED_C);
		}
		block_pass(m, 0, 0, cases[i].kept ?: state(0) + 8);
		pass_rest(m);
		if (cases[i].n)
			expect(m, cases[i].lines, cases[i].n,
			       (const struct want[]){{0, n - 2}, {10, n}, {20, n}}, 3);
		else
			expect(m, cases[i].lines, 1, (const struct want[]){{0, 0}, {10, 2}, {20, 2}}, 3);
	}
}

/* The block has a frame, but its function has not begun, or has ended: it is no loop. */
Test(luajit, what_is_no_loop)
{
	struct machine *m = process_new();

	state_put(m, 0, 2, native_sp(0)); /* as of C code that calls a function */
	registers(m, 24 | C, base(0, 2), base(0, 3));
	block_pass(m, 0, 0, state(0));
	pass_rest(m);
	expect(m, (const unsigned[]){20}, 1, (const struct want[]){{10, 2}, {20, 2}}, 2);

	m = process_new();
	registers(m, base(0, 2), base(0, 3), 0); /* it has ended: the register has its caller's frame */
	block_pass(m, 0, 0, state(0));
	pass_rest(m);
	expect(m, (const unsigned[]){20}, 1, (const struct want[]){{10, 2}, {20, 2}}, 2);

	m = process_new();
	state_put(m, 0, 2, native_sp(1)); /* the frame is not the innermost one yet, or no more */
	registers(m, 0, 0, 0);
	block_pass(m, 0, 0, state(0));
	pass_rest(m);
	expect(m, (const unsigned[]){20}, 1, (const struct want[]){{10, 2}, {20, 2}}, 2);
}

/* C code that the block has called without a frame on the stack of values. */
Test(luajit, protected_call)
{
	struct machine *m = process_new();
	struct unwind_state *t = &m->area.state;

	t->tie_ip = BLOCK + CPCALL - 1;
	t->tie_sp = native_sp(4);
	t->tie_cfa = native_sp(4) + FRAME;
	luajit_loop();
	cr_expect_eq(m->area.runtime.lua.n_loops, 0);
	block_pass(m, 0, 0, instruction(3, 41));
	pass_rest(m);
	expect(m, (const unsigned[]){70, 40, 20}, 3, (const struct want[]){{0, 4}, {10, 6}, {20, 6}}, 3);
}

/* A function in the block that it has called itself: the row is not right, and the walk corrects it. */
Test(luajit, inner_call)
{
	struct machine *m = process_new();
	struct unwind_state *t = &m->area.state;

	registers(m, instruction(3, 31), base(0, 4), 0);
	machine_poke(m, native_sp(0) + 16, state(0));
	t->window_len = 0;
	t->sp = t->tie_sp = native_sp(0) - 8;
	t->tie_cfa = t->tie_sp + FRAME;
	t->tie_ip = BLOCK + 0x300;
	luajit_loop();
	t->innermost = 0;
	cr_expect_eq(t->tie_cfa, native_sp(0) + FRAME);
	pass_rest(m);
	expect(m, (const unsigned[]){60, 40, 20}, 3, (const struct want[]){{0, 4}, {10, 6}, {20, 6}}, 3);
}

/* What was compiled runs in the block's frame, and memory has the function in which it began. */
Test(luajit, compiled)
{
	struct machine *m = process_new();
	struct unwind_state *t = &m->area.state;

	machine_poke(m, native_sp(0) + 16, state(0));
	machine_poke(m, GLOBAL + JIT_BASE, base(0, 3));
	t->window_len = 0;
	t->innermost = 1;
	t->ip = BLOCK + 0x10000000;
	t->sp = native_sp(0) - 0x50;
	cr_assert_eq(luajit_step_trace(), 1);
	cr_expect_eq(t->sp, native_sp(0));
	cr_expect_eq(t->ip, BLOCK);
	cr_expect_eq(t->innermost, 0);
	block_pass(m, 0, 0, instruction(2, 5));
	pass_rest(m);
	expect(m, (const unsigned[]){0, 20}, 2, (const struct want[]){{0, 2}, {10, 4}, {20, 4}}, 3);
}

Test(luajit, no_frame_above_what_was_compiled)
{
	struct machine *m = process_new();

	machine_poke(m, native_sp(0) + 16, state(0));
	machine_poke(m, GLOBAL + JIT_BASE, base(0, 3));
	m->area.state.window_len = 0;
	m->area.state.ip = BLOCK - 0x1000;
	m->area.state.sp = native_sp(0) - 129 * 8;
	cr_expect_eq(luajit_step_trace(), 0);
	m->area.state.sp = native_sp(0) - 0x40;
	m->area.state.ip = BLOCK + (1ull << 32);
	cr_expect_eq(luajit_step_trace(), 0, "too far away for a trace");
	m->area.state.ip = BLOCK - 0x1000;
	machine_poke(m, GLOBAL + JIT_BASE, 0);
	cr_expect_eq(luajit_step_trace(), 0, "no trace runs");
	machine_poke(m, GLOBAL + JIT_BASE, base(0, 3));
	cr_expect_eq(luajit_step_trace(), 1);
	m->area.state.ip = BLOCK - 0x1000;
	m->area.state.sp = NATIVE_STACK + 0x10000;
	cr_expect_eq(luajit_step_trace(), 0);
	machine_free(m);
}

/* A function with a variable number of arguments is there twice; a dummy is none, nor is a continuation. */
Test(luajit, frames_of_other_kinds)
{
	struct machine *m = process_new();

	frame_put(m, 0, 5, 4, 24u | VARARG);
	frame_put(m, 0, 4, 4, instruction(2, 21));
	frame_put(m, 0, 6, 5, 24u | PROTECTED);
	machine_poke(m, base(0, 6) - 16, 0xfffcull << 48 | state(0)); /* a dummy */
	frame_put(m, 0, 8, 6, 48u | CONTINUATION);
	machine_poke(m, base(0, 8) - 24, instruction(7, 71)); /* where its caller goes on */
	frame_put(m, 0, 6, 7, instruction(4, 51));
	state_put(m, 0, 8, native_sp(0));
	block_pass(m, 0, 0, instruction(6, 61));
	pass_rest(m);
	expect(m, (const unsigned[]){60 + 60, 70 + 70, 40 + 50, 40, 20}, 5,
	       (const struct want[]){{0, 8}, {10, 10}, {20, 10}}, 3);
}

/* A coroutine that another one has resumed. */
Test(luajit, coroutines)
{
	struct machine *m = process_new();

	frame_put(m, 1, 0, 5, by(PROTECTED_C));
	frame_put(m, 1, 1, 6, instruction(5, 51));
	state_put(m, 1, 1, native_sp(0));
	registers(m, instruction(6, 61), base(1, 1), 0);
	block_pass(m, 0, 1, state(1));
	block_pass(m, 1, 0, instruction(3, 31));
	block_pass(m, 2, 0, 0);
	block_pass(m, 3, 0, 0);
	expect(m, (const unsigned[]){60 + 60, 50 + 50, 60, 40, 20}, 5,
	       (const struct want[]){{0, 4}, {10, 8}, {20, 10}, {30, 10}}, 4);
}

/* What a tenant may write. */
Test(luajit, broken)
{
	static const struct {
		uint64_t address, word;
		unsigned reason;
	} cases[] = {
		{FUNCTIONS + 3 * FUNCTION_BYTES + 0x100 + 64, 0x1230,
		 RUNTIME_REASON_INCONSISTENT}, /* its source */
		{VALUES + 16 + 24 * 5 - 8, 0, RUNTIME_REASON_READ_FAULT},
		{VALUES + 16 + 24 * 5 - 8, 8, RUNTIME_REASON_READ_FAULT},
		{VALUES + 16 + 24 * 5 - 8, C, RUNTIME_REASON_INCONSISTENT}, /* to itself */
		{VALUES + 16 + 24 * 5 - 8, 0x4000 | C, RUNTIME_REASON_INCONSISTENT},
		{STATES + 56, VALUES + 0x2000, RUNTIME_REASON_NO_THREAD},
		{STATES + 56, 0, RUNTIME_REASON_NO_THREAD},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct machine *m = process_new();

		machine_poke(m, cases[i].address, cases[i].word);
		block_pass(m, 0, 0, instruction(3, 41));
		pass_rest(m);
		lua_walk();
		cr_expect_eq(m->area.runtime.part.whole, 0, "case %zu", i);
		cr_expect_eq(m->area.runtime.part.reason, cases[i].reason, "case %zu: reason %u", i,
			     m->area.runtime.part.reason);
		machine_free(m);
	}
}
