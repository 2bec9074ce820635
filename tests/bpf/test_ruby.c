// SPDX-License-Identifier: Apache-2.0
/* Ruby's control frames: an array in a process's memory, also such as a tenant makes. */
#include "tests/bpf/runtime_process.h"

#define HEAP 0x50000000ull
#define HEAP_BYTES 0x80000ull
#define THREAD 0x60000800ull /* thread pointer */
#define CONTEXT HEAP
#define RUBY_THREAD (HEAP + 0x400)
#define START (HEAP + 0x500)
#define VM_STACK (HEAP + 0x10000)
#define VM_WORDS 0x2000ull
#define VM_END (VM_STACK + VM_WORDS * 8)
#define FRAME 56ull
#define ISEQS (HEAP + 0x30000) /* each of 0x1000 bytes: iseq, body, table of lines, its index */
#define METHODS (HEAP + 0x70000)
#define ENVS (HEAP + 0x60000) /* of 32 bytes each */
#define SLOT (-24)

#define LOCAL 2ull
#define FINISH 0x20ull
#define LEAF 12u /* register */

enum kind {
	METHOD = 0x1111,
	BLOCK = 0x2222,
	TOP = 0x4444,
	NATIVE = 0x5555,
	IFUNC = 0x6666,
	RESCUE = 0x7888,
	DUMMY = 0x7999
};

static const struct runtime_walk walk_3_4 = {
	.salt = 0x1234567890abcdefull,
	.slot = SLOT,
	.flags = RUNTIME_WALK_HANDLERS,
	.runtime = RUNTIME_RUBY,
	.thread = 48,
	.frame_bytes = FRAME,
	.code = 16,
	.kind = 32,
	.leaf_register = LEAF,
	.shape = RUNTIME_SHAPE_ARRAY,
	.lines = 136,
	.text_length = 16,
	.bytes = 24,
	.scope = 32,
	.scope_name = 152,
	.instructions = 112,
	.n_instructions = 128,
	.instruction_bytes = 12,
	.symbols = HEAP + 0x600,
	.back = 48,
	.local = 168,
	.attached = 128,
	.single_flag = 13,
};

static uint64_t iseq_at(unsigned i)
{
	return ISEQS + i * 0x1000;
}

static uint64_t code_of(unsigned i, unsigned instruction)
{
	return iseq_at(i) + 0x800 + instruction * 8ull;
}

static void string_put(struct machine *m, uint64_t at, uint64_t length, uint64_t word)
{
	machine_poke(m, at, RUBY_TYPE_STRING);
	machine_poke(m, at + 16, length);
	machine_poke(m, at + 24, word);
}

/* An iseq of 64 instructions. Entry k of its table has line 100 * i + k, and begins at instruction 4k. */
static void iseq_put(struct machine *m, unsigned i)
{
	const uint64_t body = iseq_at(i) + 0x100, table = iseq_at(i) + 0x400, index = iseq_at(i) + 0x600;
	uint64_t bits = 0;

	machine_poke(m, iseq_at(i), RUBY_TYPE_INTERNAL | RUBY_INTERNAL_ISEQ << 12);
	machine_poke(m, iseq_at(i) + 16, body);
	machine_poke(m, body, 64ull << 32 | 1);
	machine_poke(m, body + 8, code_of(i, 0));
	machine_poke(m, body + 80, iseq_at(i) + 0x700);
	machine_poke(m, body + 112, table);
	machine_poke(m, body + 128, 16);
	machine_poke(m, body + 136, index);
	for (unsigned k = 0; k < 16; k++) /* the line is the first of 12 bytes */
		for (unsigned half = 0; half < 8; half += 8)
			machine_poke(m, table + k * 12ull, i * 100 + k);
	for (unsigned word = 0; word < 6; word++) {
		bits = 0;
		for (unsigned k = 0; k < 9; k++)
			bits |= (uint64_t)((word * 9 + k) / 4 + 1) << 7 * k;
		machine_poke(m, index + word * 8, bits);
	}
	machine_poke(m, index + 48, 14); /* entries before position 54 */
	machine_poke(m, index + 48 + 16, 1ull << 2 | 1ull << 6);
}

/* A thread with no frames but the two of the stack's end. */
static struct machine *process_new(const struct runtime_walk *walk)
{
	struct machine *m = machine_new();

	machine_memory(m, HEAP, HEAP_BYTES);
	machine_memory(m, THREAD - 0x800, 0x1000);
	machine_poke(m, CONTEXT, VM_STACK);
	machine_poke(m, CONTEXT + 8, VM_WORDS);
	machine_poke(m, CONTEXT + 16, VM_END - FRAME);
	machine_poke(m, CONTEXT + walk->thread, RUBY_THREAD);
	machine_poke(m, RUBY_THREAD + walk->back, walk->start ? THREAD : CONTEXT);
	machine_poke(m, THREAD + SLOT, CONTEXT);
	machine_poke(m, START, CONTEXT);
	machine_poke(m, ENVS + 16, (uint64_t)DUMMY << 16 | FINISH | LOCAL | 1);
	machine_poke(m, VM_END - FRAME + 32, ENVS + 16);
	for (unsigned i = 1; i < 8; i++)
		iseq_put(m, i);
	m->env.thread = THREAD;
	walk_set(m, walk);
	return m;
}

/* Frame number `at`, 1 is the outermost; it is the innermost one for now. */
static void frame_put(struct machine *m, unsigned at, enum kind kind, unsigned iseq, unsigned instruction,
		      uint64_t flags, uint64_t method)
{
	const uint64_t frame = VM_END - FRAME * (at + 1), env = ENVS + at * 32;

	machine_poke(m, env, method);
	machine_poke(m, env + 16, (uint64_t)kind << 16 | flags | 1);
	machine_poke(m, frame, iseq ? code_of(iseq, instruction) : 0);
	machine_poke(m, frame + 16, iseq ? iseq_at(iseq) : 0);
	machine_poke(m, frame + 32, env + 16);
	machine_poke(m, CONTEXT + 16, frame);
}

/* A method entry of native code, or of Ruby code. */
static uint64_t method_put(struct machine *m, unsigned i)
{
	const uint64_t method = METHODS + i * 256;

	machine_poke(m, method, RUBY_TYPE_INTERNAL | RUBY_INTERNAL_METHOD << 12);
	machine_poke(m, method + 16, method + 64);
	machine_poke(m, method + 64 + 8, 0x400000 + i);
	machine_poke(m, method + 64 + 32, 3000 + i);
	return method;
}

Test(ruby, frames_and_segments)
{
	struct machine *m = process_new(&walk_3_4);
	struct runtime_part p;

	frame_put(m, 1, TOP, 1, 1, FINISH | LOCAL, 0);
	frame_put(m, 2, METHOD, 2, 9, LOCAL, 0);
	frame_put(m, 3, NATIVE, 0, 0, LOCAL, method_put(m, 1));
	frame_put(m, 4, IFUNC, 3, 0, 0, 0);
	frame_put(m, 5, BLOCK, 3, 0, FINISH, 0);
	frame_put(m, 6, METHOD, 4, 64, LOCAL, 0);
	p = runtime_walk(m);
	cr_assert_eq(p.n_words, 10);
	cr_expect_eq(p.whole, 1);
	cr_expect_eq(p.runtime, RUNTIME_RUBY);
	cr_assert_eq(p.n_segments, 2);
	cr_expect_eq(segments(m)[0].end, 4);
	cr_expect_eq(segments(m)[0].marker, 0);
	cr_expect_eq(segments(m)[1].end, 10);
	cr_expect_eq(words(m)[1], 415, "behind the last instruction");
	cr_expect_eq(words(m)[3], 300, "at the begin");
	cr_expect_eq(words(m)[5], 0, "native code");
	cr_expect_eq(words(m)[7], 202);
	cr_expect_eq(words(m)[9], 100);
	machine_free(m);
}

/* Every position of an iseq has its line: those that the index has directly, and those in a block of it. */
Test(ruby, lines)
{
	struct machine *m = process_new(&walk_3_4);

	for (unsigned pc = 0; pc <= 65; pc++) {
		unsigned position = pc ? pc - 1 : 0, want = 500 + position / 4;

		if (position >= 54)
			want = 500 + 13 + (position >= 56) + (position >= 60);
		frame_put(m, 1, TOP, 5, pc, FINISH | LOCAL, 0);
		cr_assert_eq(runtime_walk(m).n_words, 2);
		cr_expect_eq(words(m)[1], pc > 64 ? 0 : want, "pc %u: %lu", pc, (unsigned long)words(m)[1]);
	}
	machine_poke(m, iseq_at(5) + 0x100 + 128, 1);
	frame_put(m, 1, TOP, 5, 40, FINISH | LOCAL, 0);
	runtime_walk(m);
	cr_expect_eq(words(m)[1], 500, "one line, no index");
	machine_poke(m, iseq_at(5) + 0x100 + 128, 3);
	runtime_walk(m);
	cr_expect_eq(words(m)[1], 0, "an entry that the table does not have");
	machine_poke(m, iseq_at(5) + 0x100 + 128, 16);
	machine_poke(m, iseq_at(5) + 0x100 + 136, 0x10000);
	runtime_walk(m);
	cr_expect_eq(words(m)[1], 0, "an index in no memory");
	machine_free(m);
}

/* What handles an exception is one with what it belongs to, at the line of the innermost handler. */
Test(ruby, handlers)
{
	struct runtime_walk walk = walk_3_4;

	for (int one = 0; one < 2; one++) {
		struct machine *m;

		walk.flags = one ? RUNTIME_WALK_HANDLERS : 0;
		m = process_new(&walk);
		frame_put(m, 1, METHOD, 1, 1, FINISH | LOCAL, 0);
		frame_put(m, 2, RESCUE, 2, 1, 0, 0);
		frame_put(m, 3, RESCUE, 3, 9, 0, 0);
		frame_put(m, 4, METHOD, 4, 1, LOCAL, 0);
		cr_assert_eq(runtime_walk(m).n_words, one ? 4 : 8);
		cr_expect_eq(words(m)[1], 400);
		cr_expect_eq(words(m)[3], 302);
		cr_expect_eq(segments(m)[0].end, one ? 4 : 8);
		machine_free(m);
	}
}

/* The innermost frame's pc is in a register, if the next one has that frame. */
Test(ruby, the_leaf_s_registers)
{
	struct machine *m = process_new(&walk_3_4);

	frame_put(m, 1, METHOD, 1, 1, FINISH | LOCAL, 0);
	frame_put(m, 2, METHOD, 2, 1, LOCAL, 0);
	m->area.state.regs[LEAF] = code_of(2, 13);
	runtime_walk(m);
	cr_expect_eq(words(m)[1], 200);
	m->area.state.regs[LEAF + 1] = VM_END - 3 * FRAME;
	runtime_walk(m);
	cr_expect_eq(words(m)[1], 203);
	cr_expect_eq(words(m)[3], 100);
	machine_free(m);
}

static uint64_t number_of(struct machine *m)
{
	cr_assert_eq(runtime_walk(m).n_words, 2);
	return words(m)[0];
}

/* A class with a name, of one object only if `attached`. */
static uint64_t class_put(struct machine *m, unsigned i, uint64_t attached, uint64_t path)
{
	const uint64_t class = METHODS + 0x4000 + i * 256;

	machine_poke(m, class, RUBY_TYPE_CLASS | (attached ? 1ull << 13 : 0));
	machine_poke(m, class + 128, attached);
	machine_poke(m, class + 152, path);
	return class;
}

Test(ruby, numbers)
{
	struct machine *m = process_new(&walk_3_4);
	const uint64_t method = method_put(m, 1), text = METHODS + 0x8000;
	uint64_t first, second;

	string_put(m, text, 8, 1);
	frame_put(m, 1, METHOD, 1, 1, FINISH | LOCAL, 0);
	first = number_of(m);
	cr_expect_eq(number_of(m), first);
	frame_put(m, 1, METHOD, 1, 7, FINISH | LOCAL, 0);
	cr_expect_eq(number_of(m), first, "another place in it");
	frame_put(m, 1, METHOD, 1, 7, FINISH | LOCAL, method);
	machine_poke(m, method + 32, class_put(m, 1, 0, 0));
	cr_expect_eq(number_of(m), first, "a class without a name");
	class_put(m, 1, 0, text);
	second = number_of(m);
	cr_expect_neq(second, first, "a class with a name");
	machine_poke(m, text + 24, 99);
	cr_expect_neq(number_of(m), second, "another name");
	machine_poke(m, method + 32, class_put(m, 2, METHODS + 0x4100, 0));
	cr_expect_neq(number_of(m), first, "the class of one object has the object's name");
	machine_poke(m, method + 32, class_put(m, 3, iseq_at(1), text));
	cr_expect_eq(number_of(m), first, "what is no class has no name");
	machine_free(m);
}

/* Strings that take the memory of others, with all that is in an iseq the same. */
Test(ruby, numbers_of_texts)
{
	struct machine *m = process_new(&walk_3_4);
	const uint64_t label = iseq_at(1) + 0x700, file = iseq_at(1) + 0x740, body = iseq_at(1) + 0x100;
	const uint64_t elsewhere = METHODS + 0x9000, array = METHODS + 0x9100;
	uint64_t last, number;

	string_put(m, label, 8, 5);
	string_put(m, file, 8, 5);
	machine_poke(m, body + RUBY_LOCATION, file);
	frame_put(m, 1, METHOD, 1, 1, FINISH | LOCAL, 0);
	last = number_of(m);
	string_put(m, label, 8, 6);
	number = number_of(m);
	cr_expect_neq(number, last, "another label");
	last = number;
	string_put(m, label, 7, 6);
	number = number_of(m);
	cr_expect_neq(number, last, "a shorter label");
	last = number;
	machine_poke(m, label + 40, 7);
	cr_expect_eq(number_of(m), last, "what is behind it");
	string_put(m, file, 8, 6);
	number = number_of(m);
	cr_expect_neq(number, last, "another file");
	machine_poke(m, file, RUBY_TYPE_STRING | RUBY_ELSEWHERE);
	machine_poke(m, file + 16, 300);
	machine_poke(m, file + 24, elsewhere);
	last = number_of(m);
	machine_poke(m, elsewhere + 288, 1);
	number = number_of(m);
	cr_expect_neq(number, last, "the end of a long name that is elsewhere");
	machine_poke(m, array, RUBY_TYPE_ARRAY | RUBY_ELSEWHERE | 2ull << 15);
	machine_poke(m, array + 16, file);
	machine_poke(m, body + RUBY_LOCATION, array);
	last = number_of(m);
	machine_poke(m, elsewhere + 288, 2);
	cr_expect_neq(number_of(m), last, "the first one of an array");
	machine_free(m);
}

/* Code that is evaluated is labelled as what it is evaluated in. */
Test(ruby, labels_of_code_that_is_evaluated)
{
	struct runtime_walk walk = walk_3_4;
	struct machine *m = process_new(&walk);
	const uint64_t body = iseq_at(1) + 0x100, label = iseq_at(2) + 0x700;
	uint64_t last;

	machine_poke(m, body, 64ull << 32 | RUBY_ISEQ_EVAL);
	machine_poke(m, body + walk.local - 8, iseq_at(2));
	string_put(m, label, 8, 5);
	frame_put(m, 1, BLOCK, 1, 1, FINISH | LOCAL, 0);
	last = number_of(m);
	string_put(m, label, 8, 6);
	cr_expect_neq(number_of(m), last);
	machine_poke(m, body, 64ull << 32 | 1);
	last = number_of(m);
	string_put(m, label, 8, 5);
	cr_expect_eq(number_of(m), last, "it is not evaluated");
	machine_free(m);
}

/* The method entry: at once, behind the last match ($~), and of the method that a block is in. */
Test(ruby, method_entries)
{
	struct machine *m = process_new(&walk_3_4);
	const uint64_t method = method_put(m, 1), svar = METHODS + 0x6000, text = METHODS + 0x8000;
	uint64_t plain, named;

	machine_poke(m, svar, RUBY_TYPE_INTERNAL | RUBY_INTERNAL_SVAR << 12);
	machine_poke(m, svar + 8, method);
	frame_put(m, 1, BLOCK, 1, 1, FINISH, 0);
	plain = number_of(m);
	machine_poke(m, method + 32, class_put(m, 1, 0, text));
	frame_put(m, 1, METHOD, 1, 1, FINISH | LOCAL, method);
	named = number_of(m);
	cr_expect_neq(named, plain);
	frame_put(m, 1, METHOD, 1, 1, FINISH | LOCAL, svar);
	cr_expect_eq(number_of(m), named);
	frame_put(m, 1, BLOCK, 1, 1, FINISH, 0);
	machine_poke(m, ENVS + 32 + 8, (ENVS + 0x800) | 3); /* the block's maker */
	machine_poke(m, ENVS + 0x800 - 16, svar);
	machine_poke(m, ENVS + 0x800, LOCAL | 1);
	cr_expect_eq(number_of(m), named);
	machine_poke(m, ENVS + 32 + 8, (ENVS + 32 + 16) | 1); /* a block in itself */
	cr_expect_eq(number_of(m), plain);
	machine_free(m);
}

Test(ruby, native_code)
{
	struct runtime_walk walk = walk_3_4;
	struct machine *m = process_new(&walk);
	uint64_t first;

	frame_put(m, 1, NATIVE, 0, 0, FINISH | LOCAL, method_put(m, 1));
	first = number_of(m);
	frame_put(m, 1, NATIVE, 0, 0, FINISH | LOCAL, method_put(m, 2));
	cr_expect_neq(number_of(m), first);
	frame_put(m, 1, NATIVE, 0, 0, FINISH | LOCAL, iseq_at(1));
	cr_expect_eq(runtime_walk(m).n_words, 0, "no method entry");
	frame_put(m, 1, NATIVE, 0, 0, FINISH | LOCAL, method_put(m, 1));
	machine_poke(m, METHODS + 256 + 16, 0x10000);
	cr_expect_eq(runtime_walk(m).reason, RUNTIME_REASON_INCONSISTENT, "a definition in no memory");
	walk.symbols = 0;
	walk_set(m, &walk);
	cr_expect_eq(runtime_walk(m).n_words, 0, "their names are not known");
	machine_free(m);
}

/* Where the context is, and which is none. */
Test(ruby, contexts)
{
	static const struct {
		const char *name;
		uint64_t address, word;
	} bad[] = {
		{"another thread's", RUBY_THREAD + 48, CONTEXT + 8},
		{"no thread", CONTEXT + 48, 0x10000},
		{"a small stack", CONTEXT + 8, 255},
		{"a huge stack", CONTEXT + 8, 1ull << 60},
		{"a frame below the stack", CONTEXT + 16, VM_STACK},
		{"a frame above it", CONTEXT + 16, VM_END},
		{"frames of another size", CONTEXT + 16, VM_END - FRAME - 8},
		{"no context", THREAD + SLOT, 0},
		{"not aligned", THREAD + SLOT, CONTEXT + 4},
	};
	struct runtime_walk walk = walk_3_4;
	struct machine *m;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		m = process_new(&walk);
		frame_put(m, 1, TOP, 1, 1, FINISH | LOCAL, 0);
		cr_assert_eq(runtime_walk(m).n_words, 2);
		machine_poke(m, bad[i].address, bad[i].word);
		cr_expect_eq(runtime_walk(m).n_words, 0, "%s", bad[i].name);
		machine_free(m);
	}
	walk.slot = 0;
	walk.flags |= RUNTIME_WALK_SEARCH;
	m = process_new(&walk);
	frame_put(m, 1, TOP, 1, 1, FINISH | LOCAL, 0);
	cr_expect_eq(runtime_walk(m).n_words, 2, "a variable that is searched");
	machine_free(m);
}

/* 2.7: a pointer to the context of the thread that runs Ruby code. */
Test(ruby, one_context_for_all_threads)
{
	struct runtime_walk walk = walk_3_4;
	struct machine *m;

	walk.start = START;
	walk.slot = 0;
	m = process_new(&walk);
	frame_put(m, 1, TOP, 1, 1, FINISH | LOCAL, 0);
	cr_expect_eq(runtime_walk(m).n_words, 2);
	m->env.thread = THREAD + 64;
	cr_expect_eq(runtime_walk(m).n_words, 0, "another thread");
	m->env.thread = THREAD;
	machine_poke(m, START, 0);
	cr_expect_eq(runtime_walk(m).n_words, 0);
	machine_free(m);
	walk.start = 0x10000;
	m = process_new(&walk);
	cr_expect_eq(runtime_walk(m).reason, RUNTIME_REASON_READ_FAULT);
	machine_free(m);
}

Test(ruby, broken_frames)
{
	static const struct {
		const char *name;
		uint64_t offset, word;
		unsigned n_words;
		int reason;
	} cases[] = {
		{"an ep in no memory", 32, 0x10000, 2, RUNTIME_REASON_READ_FAULT},
		{"an ep to something else", 32, METHODS, 2, RUNTIME_REASON_INCONSISTENT},
		{"an iseq in no memory", 16, 0x10000, 2, RUNTIME_REASON_INCONSISTENT},
		{"no iseq", 16, 0, 4, 0},
		{"a pc elsewhere", 0, 0x10000, 6, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct machine *m = process_new(&walk_3_4);
		struct runtime_part p;

		frame_put(m, 1, TOP, 1, 1, FINISH | LOCAL, 0);
		frame_put(m, 2, METHOD, 2, 1, LOCAL, 0);
		frame_put(m, 3, METHOD, 3, 1, LOCAL, 0);
		machine_poke(m, VM_END - 3 * FRAME + cases[i].offset, cases[i].word);
		p = runtime_walk(m);
		cr_expect_eq(p.n_words, cases[i].n_words, "%s: %u", cases[i].name, p.n_words);
		cr_expect_eq(p.reason, cases[i].reason, "%s: %u", cases[i].name, p.reason);
		cr_expect_eq(p.whole, !cases[i].reason, "%s", cases[i].name);
		machine_free(m);
	}
}

/* More frames than a record has, over several pages; and none that have a function. */
Test(ruby, deep)
{
	struct machine *m = process_new(&walk_3_4);
	struct runtime_part p;

	for (unsigned i = 1; i <= 500; i++)
		frame_put(m, i, METHOD, 1 + i % 7, i % 60, i == 1 ? FINISH | LOCAL : LOCAL, 0);
	p = runtime_walk(m);
	cr_expect_eq(p.n_words, 1000);
	cr_expect_eq(p.whole, 1);
	for (unsigned i = 501; i <= 600; i++)
		frame_put(m, i, METHOD, 1, 1, LOCAL, 0);
	p = runtime_walk(m);
	cr_expect_eq(p.n_words, 2 * RUNTIME_FRAMES_MAX);
	cr_expect_eq(p.reason, RUNTIME_REASON_DEPTH_LIMIT);
	machine_free(m);
}
