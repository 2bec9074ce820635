// SPDX-License-Identifier: Apache-2.0
/* Frames of Lua: coroutines' lists of calls in a process's memory, also such as a tenant makes. */
#include "tests/bpf/runtime_process.h"

#define HEAP 0x50000000ull
#define HEAP_BYTES 0x80000ull
#define STATES HEAP /* 0x100 bytes each */
#define CALLS (HEAP + 0x2000)
#define CALL_BYTES 0x48ull
#define FUNCTIONS (HEAP + 0x10000) /* a function, its code object and its instructions */
#define FUNCTION_BYTES 0x2000ull
#define INSTRUCTIONS 200u
#define TEXT (HEAP + 0x60000)
#define VALUES (HEAP + 0x70000) /* the coroutines' stacks, 0x1000 bytes each */
#define NATIVE_STACK 0x70000000ull
#define LOOP 0x400000ull

#define FRESH 4u
#define OF_C 2u
#define IDENT 6u /* a value: a function of Lua */
#define OP_CALL 68u

static const struct runtime_walk walk_5_4 = {
	.salt = 0x1234567890abcdef,
	.runtime = RUNTIME_LUA,
	.shape = RUNTIME_SHAPE_STATES,
	.leaf_register = 13,
	.first = 32,
	.stack = 48,
	.stack_end = 40,
	.frame_bytes = 72,
	.next = 16,
	.instruction = 32,
	.kind = 62,
	.entry_mask = FRESH,
	.entry_value = FRESH,
	.content = 16,
	.content_bytes = 104,
	.first_line = 44,
	.file = 112,
	.bytes = 24,
	.lines = 88,
	.steps = 40,
	.instructions = 64,
	.n_instructions = 24,
	.instruction_bytes = 4,
	.call = OP_CALL,
	.call_shift = 7,
	.loop_start = LOOP,
	.loop_bytes = 0x4000,
	.loop_body = 0x20,
	.sites = {{-0x1000, -48, 0}, {-0x2000, 0, 0}, {-0x3000, -56, 1}},
};

static uint64_t state(unsigned i)
{
	return STATES + i * 0x100ull;
}

static uint64_t call(unsigned i)
{
	return CALLS + i * CALL_BYTES;
}

static uint64_t code(unsigned function)
{
	return FUNCTIONS + function * FUNCTION_BYTES + 0x40;
}

static uint64_t instruction(unsigned function, unsigned i)
{
	return FUNCTIONS + function * FUNCTION_BYTES + 0x200 + i * 4ull;
}

/* A function that begins at line 10 * its number; each instruction is one line behind the one before. */
static void function_put(struct machine *m, unsigned i)
{
	uint64_t at = FUNCTIONS + i * FUNCTION_BYTES, c = code(i), lines = at + 0x1000, places = at + 0x1800;

	machine_poke(m, at + 24, c);
	machine_poke(m, c + 24, INSTRUCTIONS);
	machine_poke(m, c + 40, (uint64_t)(10 * i) << 32 | 1);
	machine_poke(m, c + 64, instruction(i, 0));
	machine_poke(m, c + 88, lines);
	machine_poke(m, c + 96, places);
	machine_poke(m, c + 112, TEXT);
	for (unsigned k = 0; k < INSTRUCTIONS; k += 8)
		machine_poke(m, lines + k, k == 128 ? 0x0101010101010180ull : 0x0101010101010101ull);
	machine_poke(m, places, 1000ull << 32 | 128); /* instruction 128 is at line 1000 */
}

/* Call `i` of the list of coroutine `s`, of a function that is at instruction `at`. */
static void call_put(struct machine *m, unsigned s, unsigned i, unsigned function, unsigned at,
		     unsigned status)
{
	uint64_t place = VALUES + s * 0x1000ull + i * 0x20ull;

	machine_poke(m, call(i), place);
	machine_poke(m, call(i) + 16, call(i + 1));
	machine_poke(m, call(i) + 32, instruction(function, at + 1));
	machine_poke(m, call(i) + 56, (uint64_t)status << 48);
	machine_poke(m, place, FUNCTIONS + function * FUNCTION_BYTES);
	machine_poke(m, place + 8, status & OF_C ? 22 : 0x40 | IDENT);
	/* it calls the one whose place is behind its own: register 1 */
	machine_poke(m, instruction(function, at) & ~7ull,
		     (uint64_t)(OP_CALL | 1u << 7) << 32 | OP_CALL | 1u << 7);
}

/* Coroutine `s`, with the calls from number `from` to `to`. */
static void state_put(struct machine *m, unsigned s, unsigned from, unsigned to)
{
	machine_poke(m, state(s) + 8, 8);
	machine_poke(m, state(s) + 32, call(from));
	machine_poke(m, state(s) + 40, VALUES + (s + 1) * 0x1000ull);
	machine_poke(m, state(s) + 48, VALUES + s * 0x1000ull);
	machine_poke(m, call(to) + 16, 0); /* the outermost one is no function */
}

static struct machine *process_new(void)
{
	struct machine *m = machine_new();

	machine_memory(m, HEAP, HEAP_BYTES);
	machine_memory(m, NATIVE_STACK, 0x1000);
	machine_poke(m, TEXT + 24, 0x61756c2e6140); /* @a.lua */
	for (unsigned i = 0; i < 8; i++)
		function_put(m, i);
	walk_set(m, &walk_5_4);
	return m;
}

static void begin(struct machine *m)
{
	runtime_walk(m);
	cr_expect_eq(m->area.state.next_marker, 0, "every native frame is looked at");
}

/* The native walk passes a loop that was called from site `site`, with the state where that says. */
static void loop_pass(struct machine *m, uint32_t native, unsigned site, unsigned s)
{
	uint64_t cfa = NATIVE_STACK + 0x200;

	machine_poke(m, cfa - 8, LOOP + (uint64_t)(int64_t)walk_5_4.sites[site].distance);
	machine_poke(m, cfa + (uint64_t)(int64_t)walk_5_4.sites[site].offset, state(s));
	m->area.state.window_len = 0;
	m->area.state.tie_ip = LOOP + 0x100;
	m->area.state.tie_sp = cfa - 0x80;
	m->area.state.tie_cfa = cfa;
	m->area.state.n = native;
	runtime_tie();
}

struct want {
	unsigned state, native, end, kind;
};

#define CALLED RUNTIME_SEGMENT_CALLED
#define RESUMED RUNTIME_SEGMENT_RESUMED

static void expect_segments(struct machine *m, const struct want *want, unsigned n)
{
	lua_walk();
	cr_assert_eq(m->area.runtime.part.n_segments, n, "%u segments", m->area.runtime.part.n_segments);
	for (unsigned i = 0; i < n; i++) {
		const struct runtime_segment *s = segments(m) + i;

		cr_expect_eq(s->marker, state(want[i].state), "%u: %llx", i, s->marker);
		cr_expect_eq(s->native, want[i].native, "%u: native %u", i, s->native);
		cr_expect_eq(s->end, want[i].end, "%u: end %u", i, s->end);
		cr_expect_eq(s->kind, want[i].kind, "%u: kind %u", i, s->kind);
	}
}

static void expect_lines(const struct machine *m, const unsigned *lines, unsigned n)
{
	cr_assert_eq(m->area.runtime.part.n_words, 2 * n, "%u words", m->area.runtime.part.n_words);
	for (unsigned i = 0; i < n; i++) {
		cr_expect_eq(frame_runtime_of(words(m)[i * 2]), RUNTIME_LUA);
		cr_expect_eq(words(m)[i * 2 + 1], lines[i], "frame %u: line %lu", i,
			     (unsigned long)words(m)[i * 2 + 1]);
	}
}

/* A function that another one calls; native code that calls a function; the main chunk. */
static void calls_put(struct machine *m)
{
	call_put(m, 0, 0, 3, 5, 0);
	call_put(m, 0, 1, 2, 4, FRESH);
	call_put(m, 0, 2, 1, 0, OF_C);
	call_put(m, 0, 3, 1, 130, FRESH);
	call_put(m, 0, 4, 0, 0, OF_C);
	state_put(m, 0, 0, 5);
}

Test(lua, segments_and_lines)
{
	struct machine *m = process_new();

	calls_put(m);
	/* the innermost function's place is where its caller has it: register 1 */
	machine_poke(m, call(0), VALUES + 0x20 + 0x20);
	machine_poke(m, VALUES + 0x40, FUNCTIONS + 3 * FUNCTION_BYTES);
	machine_poke(m, VALUES + 0x48, 0x40 | IDENT);
	machine_poke(m, call(2), VALUES + 0x80);
	begin(m);
	loop_pass(m, 2, 0, 0);
	loop_pass(m, 5, 1, 0);
	expect_segments(m, (const struct want[]){{0, 2, 4, CALLED}, {0, 5, 6, CALLED}}, 2);
	expect_lines(m, (const unsigned[]){30 + 6, 20 + 5, 1000 + 2}, 3);
	cr_expect_eq(m->area.runtime.part.whole, 1);
	machine_free(m);
}

/* Each of these cases has the functions of calls_put(), with the innermost one where its caller calls it. */
static struct machine *process_with_calls(void)
{
	struct machine *m = process_new();

	calls_put(m);
	machine_poke(m, call(0), VALUES + 0x20 + 0x20);
	machine_poke(m, call(2), VALUES + 0x80);
	machine_poke(m, VALUES + 0x40, FUNCTIONS + 3 * FUNCTION_BYTES);
	machine_poke(m, VALUES + 0x48, 0x40 | IDENT);
	begin(m);
	return m;
}

/* What the list has before an innermost call is filled in. */
Test(lua, calls_that_have_not_begun)
{
	static const struct {
		const char *what;
		uint64_t address, word;
		unsigned n_lines, lines[3];
	} cases[] = {
		{"a function of C", VALUES + 0x48, 22, 2, {25, 1002}},
		{"no place on the stack", CALLS, 0x1238, 2, {25, 1002}},
		{"another function is called", CALLS, VALUES + 0x60, 2, {25, 1002}},
		{"its result is in its place",
		 CALLS + 32,
		 FUNCTIONS + 5 * FUNCTION_BYTES + 0x200,
		 2,
		 {25, 1002}},
		{"marked as an earlier call", CALLS + 56, (uint64_t)FRESH << 48, 3, {36, 25, 1002}},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct machine *m = process_with_calls();

		machine_poke(m, cases[i].address, cases[i].word);
		loop_pass(m, 2, 0, 0);
		loop_pass(m, 5, 1, 0);
		lua_walk();
		expect_lines(m, cases[i].lines, cases[i].n_lines);
		cr_expect_eq(segments(m)[0].end, 2 * cases[i].n_lines - 2, "%s", cases[i].what);
		machine_free(m);
	}
}

/* The instruction of the innermost function is in a register, as long as the loop runs. */
Test(lua, a_register_has_the_instruction)
{
	struct machine *m = process_with_calls();

	m->area.state.innermost = m->area.state.have_regs = 1;
	m->area.state.regs[13] = instruction(3, 51);
	loop_pass(m, 0, 0, 0);
	loop_pass(m, 5, 1, 0);
	lua_walk();
	expect_lines(m, (const unsigned[]){30 + 51, 25, 1002}, 3);
	machine_free(m);

	m = process_with_calls();
	m->area.state.innermost = m->area.state.have_regs = 1;
	m->area.state.regs[13] = instruction(4, 51);
	loop_pass(m, 0, 0, 0);
	lua_walk();
	cr_expect_eq(words(m)[1], 36, "another function's");
	machine_free(m);
}

/* A loop that has not saved its caller's registers is none yet; nor is other code. */
Test(lua, what_is_no_loop)
{
	struct machine *m = process_with_calls();

	m->area.state.innermost = 1;
	m->area.state.tie_cfa = NATIVE_STACK + 0x200;
	m->area.state.tie_ip = LOOP + 0x1f;
	runtime_tie();
	m->area.state.tie_ip = LOOP + 0x4000;
	runtime_tie();
	m->area.state.tie_ip = LOOP - 1;
	runtime_tie();
	cr_expect_eq(m->area.runtime.lua.n_loops, 0);
	lua_walk();
	cr_expect_eq(m->area.runtime.part.n_words, 0);
	machine_free(m);
}

/* A suspended coroutine's loop, which runs two segments; the coroutine that has resumed it. */
Test(lua, coroutines)
{
	struct machine *m = process_new();

	call_put(m, 1, 0, 5, 0, FRESH);
	call_put(m, 1, 1, 5, 0, OF_C);
	call_put(m, 1, 2, 4, 0, FRESH);
	state_put(m, 1, 0, 3);
	call_put(m, 0, 10, 5, 0, OF_C);
	call_put(m, 0, 11, 3, 1, FRESH);
	state_put(m, 0, 10, 12);
	machine_poke(m, call(1), VALUES + 0x1000 + 0x100);
	begin(m);
	loop_pass(m, 3, 2, 1);
	loop_pass(m, 8, 0, 0);
	loop_pass(m, 9, 0, 0);
	expect_segments(m,
			(const struct want[]){{1, 3, 2, RESUMED},
					      {1, RUNTIME_NOT_TIED, 4, CALLED},
					      {0, 8, 6, CALLED},
					      {0, 9, 6, CALLED}},
			4);
	expect_lines(m, (const unsigned[]){51, 41, 32}, 3);
	machine_free(m);
}

/* A loop that an unknown function has called, or whose state is none: the walk is not whole. */
Test(lua, states_that_are_not_found)
{
	static const struct {
		const char *what;
		uint64_t address, word;
	} cases[] = {
		{"no state", STATES + 8, 5},
		{"no stack", STATES + 40, VALUES},
		{"a large stack", STATES + 40, VALUES + (1ull << 40)},
		{"no list", STATES + 32, 0},
		{"an odd list", STATES + 32, CALLS + 1},
	};
	struct machine *m;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		m = process_with_calls();
		machine_poke(m, cases[i].address, cases[i].word);
		loop_pass(m, 2, 0, 0);
		lua_walk();
		cr_expect_eq(m->area.runtime.part.n_words, 0, "%s", cases[i].what);
		cr_expect_eq(m->area.runtime.part.whole, 0, "%s", cases[i].what);
		cr_expect_eq(m->area.runtime.part.reason, RUNTIME_REASON_NO_THREAD, "%s", cases[i].what);
		machine_free(m);
	}
	m = process_with_calls();
	loop_pass(m, 2, 0, 0);
	machine_poke(m, NATIVE_STACK + 0x200 - 8, LOOP - 0x1234);
	m->area.state.window_len = 0;
	runtime_tie();
	lua_walk();
	cr_expect_eq(m->area.runtime.part.n_words, 6);
	cr_expect_eq(m->area.runtime.part.whole, 0);
	machine_free(m);
}

/* Lists that a tenant has made: circular, unreadable, with what is no function. */
Test(lua, bad_lists)
{
	static const struct {
		uint64_t address, word;
		unsigned reason;
	} cases[] = {
		{CALLS + 3 * CALL_BYTES + 16, CALLS + CALL_BYTES, RUNTIME_REASON_DEPTH_LIMIT},
		{CALLS + 2 * CALL_BYTES + 16, CALLS + 2 * CALL_BYTES, RUNTIME_REASON_DEPTH_LIMIT},
		{CALLS + 2 * CALL_BYTES + 16, 0xdead0000, RUNTIME_REASON_READ_FAULT},
		{CALLS + 3 * CALL_BYTES, 0x1238, RUNTIME_REASON_INCONSISTENT},
		{VALUES + 0x60, 0xdead0000, RUNTIME_REASON_READ_FAULT},
		{FUNCTIONS + FUNCTION_BYTES + 0x40 + 112, 0xdead0000, RUNTIME_REASON_INCONSISTENT},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct machine *m = process_with_calls();

		machine_poke(m, cases[i].address, cases[i].word);
		loop_pass(m, 2, 0, 0);
		loop_pass(m, 5, 1, 0);
		lua_walk();
		cr_expect_eq(m->area.runtime.part.whole, 0, "%zu", i);
		cr_expect_eq(m->area.runtime.part.reason, cases[i].reason, "%zu: %u", i,
			     m->area.runtime.part.reason);
		cr_expect_leq(m->area.runtime.part.n_words, 2 * RUNTIME_FRAMES_MAX);
		cr_expect_leq(m->area.runtime.part.n_segments, RUNTIME_SEGMENTS_MAX);
		machine_free(m);
	}
}

/* More loops than a record has segments for. */
Test(lua, many_loops)
{
	struct machine *m = process_with_calls();

	for (unsigned i = 0; i <= RUNTIME_SEGMENTS_MAX; i++)
		loop_pass(m, i, 0, 0);
	lua_walk();
	cr_expect_eq(m->area.runtime.part.n_segments, RUNTIME_SEGMENTS_MAX);
	cr_expect_eq(m->area.runtime.part.n_words, 6);
	cr_expect_eq(m->area.runtime.part.whole, 0);
	machine_free(m);
}

/* Another function in the same memory has another number, and so has one of another source. */
Test(lua, numbers)
{
	static const uint64_t addresses[] = {FUNCTIONS + 3 * FUNCTION_BYTES + 0x40 + 40, TEXT + 24,
					     FUNCTIONS + 3 * FUNCTION_BYTES + 0x40 + 72};
	struct machine *m = process_with_calls();
	uint64_t first;

	loop_pass(m, 2, 0, 0);
	lua_walk();
	first = words(m)[0];
	machine_free(m);
	for (size_t i = 0; i < ARRAY_SIZE(addresses); i++) {
		m = process_with_calls();
		loop_pass(m, 2, 0, 0);
		lua_walk();
		cr_expect_eq(words(m)[0], first, "the same");
		machine_free(m);
		m = process_with_calls();
		machine_poke(m, addresses[i], 0x61620000ull);
		loop_pass(m, 2, 0, 0);
		lua_walk();
		cr_expect_neq(words(m)[0], first, "%zu", i);
		machine_free(m);
	}
}

/* Before 5.4, each instruction has its line; and where registers begin is in the call. */
Test(lua, lines_of_5_3)
{
	struct machine *m = process_with_calls();
	struct runtime_walk old = walk_5_4;

	old.steps = 0;
	old.leaf_register = 0;
	walk_set(m, &old);
	for (unsigned function = 1; function < 4; function++)
		for (unsigned k = 0; k < INSTRUCTIONS; k += 2)
			machine_poke(m, FUNCTIONS + function * FUNCTION_BYTES + 0x1000 + k * 4,
				     (uint64_t)(101 + k) << 32 | (100 + k));
	begin(m);
	loop_pass(m, 2, 0, 0);
	loop_pass(m, 5, 1, 0);
	lua_walk();
	expect_lines(m, (const unsigned[]){105, 104, 230}, 3);
	machine_free(m);
}
