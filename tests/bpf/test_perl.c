// SPDX-License-Identifier: Apache-2.0
/* Frames of Perl: stacks of contexts in a process's memory, also such as a tenant makes. */
#include "tests/bpf/runtime_process.h"

#define HEAP 0x50000000ull
#define HEAP_BYTES 0x80000ull
#define STATE HEAP /* the interpreter */
#define KEY (HEAP + 0x1000)
#define STATEMENTS (HEAP + 0x2000)
#define TEXTS (HEAP + 0x4000)
#define FUNCTIONS (HEAP + 0x6000)
#define FUNCTION_BYTES 0x100ull
#define STACKS (HEAP + 0x8000)
#define CONTEXTS (HEAP + 0x10000)
#define CONTEXT_BYTES 0x68ull
#define STACK_CONTEXTS 64ull
#define THREAD 0x60000800ull
#define JUMPS 0x70000000ull /* on the native stack */

/* contexts */
#define BLOCK 0x08u
#define SORT 0x00u
#define CALLED 0x29u
#define CALLED_MANY 0x39u
#define IN_REGEX 0xd9u
#define FORMAT_BODY 0x0au
#define EVAL_BLOCK 0x4bu
#define EVAL_TEXT 0x2bu
#define TRY 0x8bu
#define MAIN_STACK 1u
#define SORT_STACK 3u

static const struct runtime_walk walk_5_36 = {
	.salt = 0x1234567890abcdef,
	.key = KEY,
	.flags = RUNTIME_WALK_BODY_NAMES,
	.runtime = RUNTIME_PERL,
	.tsd = 792,
	.tsd_pointer = 128,
	.shape = RUNTIME_SHAPE_PAIRED,
	.first = 0xe0,
	.statement = 0xd0,
	.environment = 0x2f8,
	.stack_kind = 0x2c,
	.frame_bytes = CONTEXT_BYTES,
	.code = 0x48,
};

static uint64_t statement(unsigned line)
{
	return STATEMENTS + line * 0x40ull;
}

static uint64_t function(unsigned i)
{
	return FUNCTIONS + i * FUNCTION_BYTES;
}

static void text_put(struct machine *m, uint64_t at, const char *text)
{
	for (size_t len = strlen(text) + 1, i = 0; i < len; i += 8) {
		uint64_t word = 0;

		memcpy(&word, text + i, len - i < 8 ? len - i : 8);
		machine_poke(m, at + i, word);
	}
}

/* A text as names have it. */
static void hek_put(struct machine *m, uint64_t at, uint32_t hash, const char *text)
{
	machine_poke(m, at, (uint64_t)strlen(text) << 32 | hash);
	text_put(m, at + 8, text);
}

/* A function with a name of its own, in a package. */
static void function_put(struct machine *m, unsigned i)
{
	uint64_t at = function(i), body = at + 0x20, package = at + 0x90, name = at + 0xd8;

	machine_poke(m, at, body);
	machine_poke(m, at + 8, 13ull << 32 | 1);
	machine_poke(m, body + 0x20, package);
	machine_poke(m, body + 0x38, name);
	machine_poke(m, body + 0x40, TEXTS);
	machine_poke(m, body + 0x58, 0x8000ull << 32);
	machine_poke(m, package, package); /* its body, in which the names are at 0x20 */
	machine_poke(m, package + 0x20, TEXTS + 0x100);
	hek_put(m, name, i, "name");
}

/* Stack `i`, with so many contexts, in front of stack i + 1. */
static void stack_put(struct machine *m, unsigned i, unsigned n, unsigned kind)
{
	uint64_t at = STACKS + i * 0x80ull;

	machine_poke(m, at + 8, CONTEXTS + i * STACK_CONTEXTS * CONTEXT_BYTES);
	machine_poke(m, at + 0x10, kind == MAIN_STACK ? 0 : at + 0x80);
	machine_poke(m, at + 0x20, STACK_CONTEXTS << 32 | (uint32_t)(n - 1));
	machine_poke(m, at + 0x28, (uint64_t)kind << 32);
}

/* Context `k` of stack `i`, 0 being its outermost. */
static void context_put(struct machine *m, unsigned i, unsigned k, unsigned kind, unsigned line,
			uint64_t returns, unsigned called)
{
	uint64_t at = CONTEXTS + (i * STACK_CONTEXTS + k) * CONTEXT_BYTES;

	machine_poke(m, at, kind);
	machine_poke(m, at + 0x10, statement(line));
	machine_poke(m, at + 0x30, returns);
	machine_poke(m, at + 0x48, called ? function(called) : 0);
}

static void jumps_put(struct machine *m, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		machine_poke(m, JUMPS + i * 0x100, i + 1 < n ? JUMPS + (i + 1) * 0x100 : STATE + 0x300);
	machine_poke(m, STATE + 0x2f8, n ? JUMPS : STATE + 0x300);
}

/*
 * A process with an interpreter that is at line 50, in a program without functions. Lines 1 to 99 are in the
 * file "a.pl", 100 to 119 in "b.pm".
 */
static struct machine *process_new(const struct runtime_walk *walk)
{
	struct machine *m = machine_new();

	machine_memory(m, HEAP, HEAP_BYTES);
	machine_memory(m, THREAD - 0x800, 0x1000);
	machine_memory(m, JUMPS, 0x10000);
	machine_poke(m, KEY, 2);
	machine_poke(m, THREAD + 792 + 32, STATE);
	machine_poke(m, STATE + walk->first, STACKS);
	machine_poke(m, STATE + walk->statement, statement(50));
	text_put(m, TEXTS, "a.pl");
	text_put(m, TEXTS + 0x80, "b.pm");
	hek_put(m, TEXTS + 0x100, 77, "main");
	for (unsigned line = 1; line < 120; line++) {
		machine_poke(m, statement(line) + 0x20, (uint64_t)line << 32);
		machine_poke(m, statement(line) + 0x30, line < 100 ? TEXTS : TEXTS + 0x80);
	}
	for (unsigned i = 1; i < 20; i++)
		function_put(m, i);
	stack_put(m, 0, 0, MAIN_STACK);
	jumps_put(m, 1);
	m->env.thread = THREAD;
	walk_set(m, walk);
	return m;
}

static const struct runtime_segment *segment(const struct machine *m, unsigned i)
{
	return (const struct runtime_segment *)(m->area.frames + RUNTIME_KEPT) + i;
}

struct want {
	unsigned kind, end;
};

/* Behind the places to jump to. */
static void expect_segments(const struct machine *m, unsigned n_jumps, const struct want *want, unsigned n)
{
	const struct runtime_part *p = &m->area.runtime.part;

	cr_assert_eq(p->n_segments, n_jumps + n, "%u segments", p->n_segments);
	for (unsigned i = 0; i < n_jumps; i++) {
		cr_expect_eq(segment(m, i)->kind, RUNTIME_SEGMENT_JUMP);
		cr_expect_eq(segment(m, i)->marker, JUMPS + i * 0x100);
	}
	for (unsigned i = 0; i < n; i++) {
		cr_expect_eq(segment(m, n_jumps + i)->kind, want[i].kind, "segment %u: kind %u", i,
			     segment(m, n_jumps + i)->kind);
		cr_expect_eq(segment(m, n_jumps + i)->end, want[i].end, "segment %u: %u words", i,
			     segment(m, n_jumps + i)->end);
	}
}

static void expect_lines(const struct machine *m, const unsigned *lines, unsigned n)
{
	cr_assert_eq(m->area.runtime.part.n_words, 2 * n, "%u words", m->area.runtime.part.n_words);
	for (unsigned i = 0; i < n; i++) {
		cr_expect(frame_is_runtime(words(m)[i * 2]));
		cr_expect_eq(frame_runtime_of(words(m)[i * 2]), RUNTIME_PERL);
		cr_expect_eq(words(m)[i * 2 + 1], lines[i], "frame %u: line %lu", i,
			     (unsigned long)words(m)[i * 2 + 1]);
	}
}

Test(perl, a_program_without_functions)
{
	struct machine *m = process_new(&walk_5_36);

	cr_expect_eq(runtime_walk(m).whole, 1);
	expect_lines(m, (const unsigned[]){50}, 1);
	expect_segments(m, 1, (const struct want[]){{RUNTIME_SEGMENT_MAIN, 2}}, 1);
	cr_expect_eq(m->area.state.next_marker, JUMPS);
	machine_free(m);
}

/* main, a function, an eval in it, a format, a function; blocks between them, and what caller() hides. */
Test(perl, frames_and_lines)
{
	struct machine *m = process_new(&walk_5_36);

	stack_put(m, 0, 9, MAIN_STACK);
	context_put(m, 0, 0, BLOCK, 10, 0, 0);
	context_put(m, 0, 1, CALLED, 11, 1, 1);
	context_put(m, 0, 2, BLOCK, 20, 0, 0);
	context_put(m, 0, 3, EVAL_BLOCK, 21, 1, 0);
	context_put(m, 0, 4, FORMAT_BODY, 22, 1, 2);
	context_put(m, 0, 5, TRY, 30, 1, 0);
	context_put(m, 0, 6, CALLED, 31, 1, 3);
	context_put(m, 0, 7, IN_REGEX, 40, 1, 3);
	context_put(m, 0, 8, BLOCK, 41, 0, 0);
	cr_expect_eq(runtime_walk(m).whole, 1);
	expect_lines(m, (const unsigned[]){50, 31, 22, 21, 11}, 5);
	expect_segments(m, 1, (const struct want[]){{RUNTIME_SEGMENT_MAIN, 10}}, 1);
	machine_free(m);
}

/* What was called by native code, and how. */
Test(perl, segments)
{
	struct machine *m = process_new(&walk_5_36);

	stack_put(m, 0, 3, SORT_STACK);
	context_put(m, 0, 0, SORT, 20, 0, 0);
	context_put(m, 0, 1, CALLED, 21, 0, 1); /* by the block's last operation, or by native code */
	context_put(m, 0, 2, EVAL_BLOCK, 22, 1, 0);
	stack_put(m, 1, 3, 5);
	context_put(m, 1, 0, EVAL_BLOCK, 30, 0, 0);
	context_put(m, 1, 1, CALLED, 31, 0, 2);
	context_put(m, 1, 2, CALLED, 32, 1, 3);
	stack_put(m, 2, 1, 6);
	context_put(m, 2, 0, CALLED, 33, 0, 4);
	stack_put(m, 3, 1, 10);
	context_put(m, 3, 0, CALLED_MANY, 34, 0, 5);
	stack_put(m, 4, 1, MAIN_STACK);
	context_put(m, 4, 0, EVAL_TEXT, 35, 0, 0);
	jumps_put(m, 3);
	cr_expect_eq(runtime_walk(m).whole, 1);
	expect_lines(m, (const unsigned[]){50, 22, 21, 32, 31, 30, 33, 34, 35}, 9);
	expect_segments(m, 3,
			(const struct want[]){{RUNTIME_SEGMENT_EVAL, 2},
					      {RUNTIME_SEGMENT_LAST, 4},
					      {RUNTIME_SEGMENT_MANY, 4},
					      {RUNTIME_SEGMENT_CATCH, 10},
					      {RUNTIME_SEGMENT_CALL, 12},
					      {RUNTIME_SEGMENT_MANY, 14},
					      {RUNTIME_SEGMENT_STRING, 16},
					      {RUNTIME_SEGMENT_MAIN, 18}},
			8);
	machine_free(m);
}

/* Where a function has no statement yet, its line is unknown, and its file is that of its definition. */
Test(perl, a_function_that_was_just_called)
{
	struct machine *m = process_new(&walk_5_36);
	uint64_t in_a;

	stack_put(m, 0, 2, MAIN_STACK);
	context_put(m, 0, 0, CALLED, 110, 1, 1);
	context_put(m, 0, 1, CALLED, 50, 1, 2);
	machine_poke(m, STATE + walk_5_36.statement, statement(60));
	runtime_walk(m);
	expect_lines(m, (const unsigned[]){60, 50, 110}, 3);
	in_a = words(m)[0];
	context_put(m, 0, 1, CALLED, 105, 1, 2);
	machine_poke(m, STATE + walk_5_36.statement, statement(105));
	runtime_walk(m);
	expect_lines(m, (const unsigned[]){0, 105, 110}, 3);
	cr_expect_eq(words(m)[0], in_a);
	/* a function that calls itself may be at the statement again */
	context_put(m, 0, 0, CALLED, 110, 1, 2);
	context_put(m, 0, 1, CALLED, 50, 1, 2);
	machine_poke(m, STATE + walk_5_36.statement, statement(50));
	runtime_walk(m);
	expect_lines(m, (const unsigned[]){50, 50, 110}, 3);
	machine_free(m);
}

/* The innermost context is being filled in, others are not. */
Test(perl, a_context_without_function)
{
	struct machine *m = process_new(&walk_5_36);

	stack_put(m, 0, 2, MAIN_STACK);
	context_put(m, 0, 0, CALLED, 10, 1, 1);
	context_put(m, 0, 1, CALLED, 50, 0, 0);
	cr_expect_eq(runtime_walk(m).whole, 1);
	expect_lines(m, (const unsigned[]){50, 10}, 2);
	expect_segments(m, 1, (const struct want[]){{RUNTIME_SEGMENT_MAIN, 4}}, 1);
	machine_free(m);
}

/* Another function in the same memory, or another file, has another number. */
Test(perl, numbers)
{
	static const struct {
		const char *what;
		uint64_t address, word;
	} cases[] = {
		{"name", FUNCTIONS + FUNCTION_BYTES + 0xd8, 4ull << 32 | 99},
		{"package", TEXTS + 0x100, 4ull << 32 | 78},
		{"body", FUNCTIONS + FUNCTION_BYTES, FUNCTIONS + 2 * FUNCTION_BYTES + 0x20},
		{"file", TEXTS, 0x6c702e62}, /* b.pl */
		{"a function without package", FUNCTIONS + FUNCTION_BYTES + 0x20 + 0x58, 0x18000ull << 32},
		{"a function without name", FUNCTIONS + FUNCTION_BYTES + 0x20 + 0x58, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct machine *m = process_new(&walk_5_36);
		struct runtime_walk other = walk_5_36;
		uint64_t first;

		stack_put(m, 0, 2, MAIN_STACK);
		context_put(m, 0, 0, CALLED, 10, 1, 2);
		context_put(m, 0, 1, CALLED, 11, 1, 1);
		runtime_walk(m);
		first = words(m)[0];
		runtime_walk(m);
		cr_expect_eq(words(m)[0], first, "the same");
		other.salt ^= 1ull << 40;
		walk_set(m, &other);
		runtime_walk(m);
		cr_expect_neq(words(m)[0], first, "another program");
		walk_set(m, &walk_5_36);
		machine_poke(m, cases[i].address, cases[i].word);
		cr_assert_eq(runtime_walk(m).n_words, 6, "%s", cases[i].what);
		cr_expect_neq(words(m)[0], first, "%s", cases[i].what);
		machine_free(m);
	}
}

/* A name that a glob has, in a package whose name is behind its hash's array. */
Test(perl, names_of_globs)
{
	struct runtime_walk walk = walk_5_36;
	const uint64_t glob = HEAP + 0x9000, package = HEAP + 0x9100, array = HEAP + 0x9200;
	struct machine *m;

	walk.flags = 0;
	m = process_new(&walk);
	stack_put(m, 0, 1, MAIN_STACK);
	context_put(m, 0, 0, CALLED, 10, 1, 1);
	machine_poke(m, function(1) + 0x20 + 0x38, glob);
	machine_poke(m, function(1) + 0x20 + 0x58, 0);
	machine_poke(m, glob, glob + 0x20);
	machine_poke(m, glob + 0x10, glob + 0x60); /* without an effective glob */
	machine_poke(m, glob + 0x20 + 0x20, function(1) + 0xd8);
	machine_poke(m, glob + 0x20 + 0x28, package);
	machine_poke(m, package, package + 0x20);
	machine_poke(m, package + 0x10, array);
	machine_poke(m, package + 0x20 + 0x18, 7);
	machine_poke(m, array + 64, array + 128); /* the first of several names */
	machine_poke(m, array + 64 + 0x18, 2ull << 32);
	machine_poke(m, array + 128, TEXTS + 0x100);
	cr_assert_eq(runtime_walk(m).n_words, 4);
	machine_poke(m, STATE + walk.statement, 0); /* so that its names were the last that were found */
	cr_assert(perl_names(function(1)) != 0);
	cr_expect_eq(m->area.runtime.perl.name, function(1) + 0xd8);
	cr_expect_eq(m->area.runtime.perl.package, TEXTS + 0x100);
	machine_free(m);
}

/* The interpreter of a process without threads is at a constant address, and files are names of globs. */
Test(perl, not_built_for_threads)
{
	struct runtime_walk walk = walk_5_36;
	const uint64_t glob = HEAP + 0x9000;
	struct machine *m;
	uint64_t in_a;

	walk.key = 0;
	walk.start = STATE;
	walk.flags |= RUNTIME_WALK_GLOB_FILES;
	m = process_new(&walk);
	m->env.thread = 0;
	for (unsigned line = 1; line < 120; line++)
		machine_poke(m, statement(line) + 0x30, line < 100 ? glob : glob + 0x100);
	for (unsigned i = 0; i < 2; i++) {
		machine_poke(m, glob + i * 0x100, glob + i * 0x100 + 0x20);
		machine_poke(m, glob + i * 0x100 + 0x40, glob + i * 0x100 + 0x60);
		hek_put(m, glob + i * 0x100 + 0x60, i, i ? "_<b.pm" : "_<a.pl");
	}
	stack_put(m, 0, 1, MAIN_STACK);
	context_put(m, 0, 0, CALLED, 10, 1, 1);
	runtime_walk(m);
	expect_lines(m, (const unsigned[]){50, 10}, 2);
	in_a = words(m)[0];
	machine_poke(m, STATE + walk.statement, statement(110));
	runtime_walk(m);
	expect_lines(m, (const unsigned[]){110, 10}, 2);
	cr_expect_neq(words(m)[0], in_a);
	machine_poke(m, STATE + walk.statement,
		     statement(10)); /* no statement of its own: file of its definition */
	runtime_walk(m);
	expect_lines(m, (const unsigned[]){0, 10}, 2);
	cr_expect_eq(words(m)[0], in_a);
	machine_poke(m, glob, 0x10000);
	cr_expect_eq(runtime_walk(m).n_words, 4, "a file that cannot be read");
	m->env.is_other = 1;
	cr_expect_eq(runtime_walk(m).n_words, 0, "another thread");
	machine_free(m);
}

/* An interpreter that is being made runs nothing. */
Test(perl, nothing_to_jump_to)
{
	struct machine *m = process_new(&walk_5_36);

	jumps_put(m, 0);
	cr_expect_eq(runtime_walk(m).n_words, 0);
	cr_expect_eq(m->area.runtime.part.whole, 1);
	machine_free(m);
}

/* ---- what a tenant has made */

Test(perl, no_interpreters)
{
	static const struct {
		uint64_t address, word;
	} cases[] = {
		{THREAD + 792 + 32, 0},
		{THREAD + 792 + 32, STATE + 4},
		{THREAD + 792 + 32, 0x10000},
		{STATE + 0xe0, 0},
		{STATE + 0xe0, 0x10000},
		{STATE + 0xe0, HEAP + HEAP_BYTES - 8},
		{STACKS + 8, 0},
		{STACKS + 8, CONTEXTS + 1},
		{STACKS + 0x20, 64ull << 32 | 65},
		{STACKS + 0x20, 64ull << 32 | 0xfffffffe},
		{STACKS + 0x20, 1ull << 56 | 1},
		{STACKS + 0x28, 32ull << 32},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct machine *m = process_new(&walk_5_36);

		machine_poke(m, cases[i].address, cases[i].word);
		cr_expect_eq(runtime_walk(m).n_words, 0, "%zu", i);
		machine_free(m);
	}
}

/*
 * In the thread control block lie pointers to lists that are empty: what is read of them as a stack has no
 * context, and room for one.
 */
Test(perl, what_only_looks_like_an_interpreter)
{
	struct runtime_walk walk = walk_5_36;
	const uint64_t list = HEAP + 0x1800;
	struct machine *m;

	walk.key = 0;
	walk.flags |= RUNTIME_WALK_SEARCH;
	m = process_new(&walk);
	machine_poke(m, THREAD + 792 + 32, 0);
	machine_poke(m, STATE + walk.first - 8, FUNCTIONS); /* the current values */
	machine_poke(m, STACKS, FUNCTIONS);
	machine_poke(m, THREAD - 96, list);
	machine_poke(m, list + walk.first, list + 0x200);
	for (unsigned i = 0; i < 4; i++)
		machine_poke(m, list + 0x200 + i * 8, list + 0x200 + i / 2 * 16);
	cr_expect_eq(runtime_walk(m).n_words, 0, "only the list");
	machine_poke(m, THREAD - 64, STATE);
	expect_lines((runtime_walk(m), m), (const unsigned[]){50}, 1);
	machine_poke(m, STATE + walk.first - 8, TEXTS);
	cr_expect_eq(runtime_walk(m).n_words, 0, "between two stacks");
	machine_free(m);
}

Test(perl, circles)
{
	struct machine *m = process_new(&walk_5_36);
	struct runtime_part p;

	stack_put(m, 0, 0, SORT_STACK);
	machine_poke(m, STACKS + 0x10, STACKS);
	p = runtime_walk(m);
	cr_expect_eq(p.reason, RUNTIME_REASON_DEPTH_LIMIT);
	cr_expect_eq(p.n_words, 0);

	stack_put(m, 0, 1, SORT_STACK);
	machine_poke(m, STACKS + 0x10, STACKS);
	context_put(m, 0, 0, CALLED, 10, 0, 1);
	p = runtime_walk(m);
	cr_expect_eq(p.reason, RUNTIME_REASON_DEPTH_LIMIT);
	cr_expect_eq(p.n_words, 2 * RUNTIME_FRAMES_MAX);
	cr_expect_eq(p.n_segments, RUNTIME_SEGMENTS_MAX);
	cr_expect_eq(segment(m, RUNTIME_SEGMENTS_MAX - 1)->end, p.n_words);

	machine_poke(m, JUMPS, JUMPS);
	stack_put(m, 0, 0, MAIN_STACK);
	cr_expect_eq(runtime_walk(m).n_segments, PERL_JUMPS_MAX + 1);
	machine_free(m);
}

Test(perl, contexts_without_end)
{
	struct machine *m = process_new(&walk_5_36);
	struct runtime_part p;

	machine_poke(m, STACKS + 0x20, 0x7fffffull << 32 | 0x7ffffe);
	p = runtime_walk(m);
	cr_expect_eq(p.n_words, 0);
	cr_expect_eq(p.reason, RUNTIME_REASON_READ_FAULT);
	cr_expect_eq(p.whole, 0);
	machine_free(m);
}

Test(perl, broken_frames)
{
	static const struct {
		const char *name;
		uint64_t address, word;
		unsigned n_words;
		int reason;
	} cases[] = {
		{"no function", CONTEXTS + 0x48, 0, 2, RUNTIME_REASON_INCONSISTENT},
		{"function in no memory", CONTEXTS + 0x48, 0x10000, 2, RUNTIME_REASON_INCONSISTENT},
		{"another object", FUNCTIONS + FUNCTION_BYTES + 8, 12ull << 32, 2,
		 RUNTIME_REASON_INCONSISTENT},
		{"body in no memory", FUNCTIONS + FUNCTION_BYTES, 0x10000, 2, RUNTIME_REASON_INCONSISTENT},
		{"statement in no memory", CONTEXTS + CONTEXT_BYTES + 0x10, 0x10000, 6, 0},
		{"file in no memory", STATEMENTS + 20 * 0x40 + 0x30, 0x10000, 6, 0},
		{"next stack in no memory", STACKS + 0x10, 0x10000, 4, RUNTIME_REASON_INCONSISTENT},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct machine *m = process_new(&walk_5_36);
		struct runtime_part p;

		stack_put(m, 0, 2, SORT_STACK);
		context_put(m, 0, 0, CALLED, 10, 0, 1);
		context_put(m, 0, 1, CALLED, 20, 1, 2);
		stack_put(m, 1, 0, MAIN_STACK);
		machine_poke(m, cases[i].address, cases[i].word);
		p = runtime_walk(m);
		cr_expect_eq(p.n_words, cases[i].n_words, "%s: %u words", cases[i].name, p.n_words);
		cr_expect_eq(p.reason, cases[i].reason, "%s: %u", cases[i].name, p.reason);
		cr_expect_eq(p.whole, !cases[i].reason, "%s", cases[i].name);
		machine_free(m);
	}
}

Test(perl, memory_that_is_not_there)
{
	static const uint64_t at[] = {TEXTS, TEXTS + 0x100, FUNCTIONS + FUNCTION_BYTES + 0xd8, JUMPS};

	for (size_t i = 0; i < ARRAY_SIZE(at); i++) {
		struct machine *m = process_new(&walk_5_36);

		stack_put(m, 0, 1, MAIN_STACK);
		context_put(m, 0, 0, CALLED, 10, 1, 1);
		machine_fault_at(m, at[i], 1);
		cr_expect_eq(runtime_walk(m).n_words, i == 3 ? 2 : 4, "%zu", i);
		machine_free(m);
	}
}
