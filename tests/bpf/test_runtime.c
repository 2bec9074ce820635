// SPDX-License-Identifier: Apache-2.0
/* Frames of a language runtime: lists of every shape in a process's memory, also such as a tenant makes. */
#include "tests/bpf/runtime_process.h"

#define HEAP 0x50000000ull /* thread state, frames and code objects */
#define HEAP_BYTES 0x40000ull
#define STATE HEAP
#define FRAMES (HEAP + 0x2000)
#define CODES (HEAP + 0x20000)
#define CODE_BYTES 0x100ull
#define THREAD 0x60000800ull /* thread pointer */
#define KEY (HEAP + 0x1000)
#define STACK 0x70000000ull
#define SECRET 0x1234567890abcdefull
#define FRAME_BYTES 88ull
#define HIDDEN 3u

static const struct runtime_walk walk_by_key = {
	.salt = SECRET,
	.key = KEY,
	.runtime = RUNTIME_CPYTHON,
	.tsd = 792,
	.tsd_pointer = 128,
	.thread = 152,
	.first = 72,
	.first_of = RUNTIME_NO_OFFSET,
	.marker_first = RUNTIME_NO_OFFSET,
	.marker_next = RUNTIME_NO_OFFSET,
	.frame_bytes = 80,
	.next = 8,
	.code = 0,
	.instruction = 56,
	.kind = 70,
	.entry_mask = 0xff,
	.hidden_kind = HIDDEN,
	.content = 48,
	.content_bytes = 96,
};

/* A process with a thread whose state is at STATE, under key 2 as glibc keeps it; code objects all differ. */
static struct machine *process_new(const struct runtime_walk *walk)
{
	struct machine *m = machine_new();

	machine_memory(m, HEAP, HEAP_BYTES);
	machine_memory(m, THREAD - 0x800, 0x1000);
	machine_memory(m, STACK, 0x10000);
	machine_poke(m, KEY, 2);
	machine_poke(m, THREAD + 792 + 32, STATE);
	machine_poke(m, STATE + walk->thread, THREAD - SELF_BYTES);
	for (uint64_t i = 0; i < 64; i++)
		machine_poke(m, CODES + i * CODE_BYTES + 112, i);
	m->env.thread = THREAD;
	walk_set(m, walk);
	return m;
}

/* Writes a frame of the 3.13 kind. */
static void frame_put(struct machine *m, uint64_t at, uint64_t next, unsigned code, uint64_t instruction,
		      unsigned kind)
{
	machine_poke(m, at, CODES + code * CODE_BYTES);
	machine_poke(m, at + 8, next);
	machine_poke(m, at + 56, CODES + code * CODE_BYTES + instruction);
	machine_poke(m, at + 64, (uint64_t)kind << 48);
}

/* `n` frames from `at` upwards, the innermost the highest, as an interpreter's own stack has them. */
static void run_put(struct machine *m, uint64_t at, unsigned n, uint64_t last_next)
{
	for (unsigned i = 0; i < n; i++)
		frame_put(m, at + i * FRAME_BYTES, i ? at + (i - 1) * FRAME_BYTES : last_next, i % 64,
			  200 + 2 * i, 0);
	machine_poke(m, STATE + 72, at + (n - 1) * FRAME_BYTES);
}

/* Three frames of one loop, whose hidden frame is on the native stack, called by one of another loop. */
Test(runtime, frames_and_segments)
{
	struct machine *m = process_new(&walk_by_key);
	const uint64_t inner = STACK + 0x100, outer = STACK + 0x300;
	struct runtime_part p;

	frame_put(m, FRAMES, outer, 7, 210, 0);
	frame_put(m, outer, 0, 0, 0, HIDDEN);
	frame_put(m, inner, FRAMES, 0, 0, HIDDEN + 1);
	run_put(m, FRAMES + 0x200, 3, inner);
	p = runtime_walk(m);
	cr_assert_eq(p.n_words, 8);
	cr_assert_eq(p.n_segments, 2);
	cr_expect_eq(p.whole, 1);
	cr_expect_eq(p.runtime, RUNTIME_CPYTHON);
	for (unsigned i = 0; i < 4; i++) {
		cr_expect(frame_is_runtime(words(m)[i * 2]));
		cr_expect_eq(frame_runtime_of(words(m)[i * 2]), RUNTIME_CPYTHON);
		cr_expect_eq(frame_following(words(m)[i * 2]), 1);
	}
	cr_expect_eq(words(m)[1], 204);
	cr_expect_eq(words(m)[3], 202);
	cr_expect_eq(words(m)[5], 200);
	cr_expect_eq(words(m)[7], 210);
	cr_expect_eq(segments(m)[0].marker, inner);
	cr_expect_eq(segments(m)[0].end, 6);
	cr_expect_eq(segments(m)[1].marker, outer);
	cr_expect_eq(segments(m)[1].end, 8);
	cr_expect_eq(m->area.state.next_marker, inner);
	machine_free(m);
}

/* Where a thread's state is: each way leads to the same frames, and none to those of another thread. */
Test(runtime, thread_states)
{
	struct runtime_walk walk = walk_by_key;
	struct machine *m = process_new(&walk);

	run_put(m, FRAMES, 2, 0);
	cr_expect_eq(runtime_walk(m).n_words, 4, "a pthread key, glibc");

	machine_poke(m, THREAD + 792 + 32, 0);
	cr_expect_eq(runtime_walk(m).n_words, 0, "a thread without a state");
	machine_poke(m, THREAD + 128, HEAP + 0x1800);
	machine_poke(m, HEAP + 0x1800 + 16, STATE);
	cr_expect_eq(runtime_walk(m).n_words, 4, "a pthread key, musl");
	machine_poke(m, STATE + walk.thread, THREAD + 8);
	cr_expect_eq(runtime_walk(m).n_words, 0, "another thread's state");
	machine_poke(m, STATE + walk.thread, THREAD - SELF_BYTES);

	walk.key = 0;
	walk.slot = -40;
	walk_set(m, &walk);
	cr_expect_eq(runtime_walk(m).n_words, 0);
	machine_poke(m, THREAD - 40, STATE);
	cr_expect_eq(runtime_walk(m).n_words, 4, "a thread-local variable");

	walk.slot = 0;
	walk.flags = RUNTIME_WALK_SEARCH;
	walk_set(m, &walk);
	cr_expect_eq(runtime_walk(m).n_words, 4, "a thread-local variable that is searched");
	machine_poke(m, THREAD - 40, STATE + 8);
	cr_expect_eq(runtime_walk(m).n_words, 0);
	m->env.thread = 0;
	cr_expect_eq(runtime_walk(m).n_words, 0, "no thread pointer");
	machine_free(m);
}

/* Runs that cross pages, of frames that the window has and has not. */
Test(runtime, long_runs)
{
	for (unsigned n = 1; n <= 500; n += 83) {
		struct machine *m = process_new(&walk_by_key);
		struct runtime_part p;

		run_put(m, FRAMES + 8 * (n % 7), n, 0);
		p = runtime_walk(m);
		cr_expect_eq(p.n_words, 2 * n);
		cr_expect_eq(p.whole, 1);
		for (unsigned i = 0; i < n && i * 2 < p.n_words; i++)
			cr_expect_eq(words(m)[i * 2 + 1], 200 + 2 * (n - 1 - i), "frame %u of %u", i, n);
		machine_free(m);
	}
}

Test(runtime, numbers_of_code)
{
	struct machine *m = process_new(&walk_by_key);
	struct runtime_walk other = walk_by_key;
	uint64_t first, second;

	run_put(m, FRAMES, 2, 0);
	cr_assert_eq(runtime_walk(m).n_words, 4);
	first = words(m)[0];
	cr_expect_neq(first, words(m)[2]);
	runtime_walk(m);
	cr_expect_eq(words(m)[0], first, "the same object has the same number");
	machine_poke(m, CODES + CODE_BYTES + 120, 99);
	runtime_walk(m);
	second = words(m)[0];
	cr_expect_neq(second, first, "another object in the same memory");
	machine_poke(m, CODES + CODE_BYTES + 144, 99);
	runtime_walk(m);
	cr_expect_eq(words(m)[0], second, "what does not identify it");
	other.salt ^= 1ull << 40;
	walk_set(m, &other);
	runtime_walk(m);
	cr_expect_neq(words(m)[0], second, "another program");
	machine_free(m);
}

/* Objects of another type are no code objects, where it is known what that is. */
Test(runtime, types_of_code)
{
	const uint64_t type = HEAP + 0x1300;
	struct runtime_walk walk = walk_by_key;
	struct runtime_part p;
	struct machine *m;

	walk.type = 8;
	walk.code_type = type;
	m = process_new(&walk);
	run_put(m, FRAMES, 3, 0);
	for (unsigned i = 0; i < 3; i++)
		machine_poke(m, CODES + i * CODE_BYTES + 8, type);
	p = runtime_walk(m);
	cr_expect_eq(p.n_words, 6);
	cr_expect_eq(p.whole, 1);
	machine_poke(m, CODES + CODE_BYTES + 8, type + 8);
	p = runtime_walk(m);
	cr_expect_eq(p.n_words, 2);
	cr_expect_eq(p.reason, RUNTIME_REASON_INCONSISTENT);
	cr_expect_eq(p.whole, 0);
	machine_free(m);
}

/* Another object in the same memory, all of whose pointers are the same: its name or its file differs. */
Test(runtime, numbers_of_texts)
{
	const uint64_t name = HEAP + 0x1100, file = HEAP + 0x1200, length = 21;
	struct runtime_walk walk = walk_by_key;
	struct machine *m;
	uint64_t first, second;

	walk.flags = RUNTIME_WALK_TEXTS;
	walk.name = 128;
	walk.file = 112;
	walk.text_length = 16;
	m = process_new(&walk);
	run_put(m, FRAMES, 2, 0);
	machine_poke(m, CODES + CODE_BYTES + walk.name, name);
	machine_poke(m, CODES + CODE_BYTES + walk.file, file);
	machine_poke(m, file + 16, length);
	runtime_walk(m);
	first = words(m)[0];
	machine_poke(m, name + 24, 1234);
	runtime_walk(m);
	second = words(m)[0];
	cr_expect_neq(second, first, "the name's hash");
	machine_poke(m, name + 48, 1234);
	machine_poke(m, file + 24, 1234);
	runtime_walk(m);
	cr_expect_eq(words(m)[0], second, "texts that are not looked at");
	machine_poke(m, file + 16 + RUNTIME_TEXT_AT + length - 8, 1234);
	runtime_walk(m);
	cr_expect_neq(words(m)[0], second, "the file name's last characters");
	machine_poke(m, CODES + CODE_BYTES + walk.name, 0x100);
	machine_poke(m, file + 16, ~0ull);
	cr_expect_eq(runtime_walk(m).n_words, 4, "texts that cannot be read");
	machine_free(m);
}

/* 3.11: the last frame of a run says so; markers are a list of their own. 3.10: each frame has a marker. */
Test(runtime, markers_of_their_own)
{
	struct runtime_walk walk = walk_by_key;
	const uint64_t marks[] = {STACK + 0x100, STACK + 0x300, STACK + 0x500};

	walk.first = walk.marker_first = 56;
	walk.first_of = 8;
	walk.marker_next = 16;
	walk.hidden_kind = 0;
	for (int each = 0; each < 2; each++) {
		struct machine *m;
		struct runtime_part p;

		walk.flags = each ? RUNTIME_WALK_EACH | RUNTIME_WALK_INDEX : RUNTIME_WALK_ENTRY;
		walk.instruction = each ? 60 : 56;
		m = process_new(&walk);
		for (unsigned i = 0; i < 3; i++)
			machine_poke(m, marks[i] + 16, i < 2 ? marks[i + 1] : 0);
		machine_poke(m, STATE + 56, marks[0]);
		frame_put(m, FRAMES, 0, 1, 200, 1);
		frame_put(m, FRAMES + FRAME_BYTES, FRAMES, 2, 200, 1);
		frame_put(m, FRAMES + 2 * FRAME_BYTES, FRAMES + FRAME_BYTES, 3, 200, 0);
		machine_poke(m, FRAMES + 56, each ? 0xfffffffeull << 32 : CODES + CODE_BYTES + 200);
		machine_poke(m, marks[0] + 8, FRAMES + 2 * FRAME_BYTES);
		p = runtime_walk(m);
		cr_assert_eq(p.n_words, 6);
		cr_assert_eq(p.n_segments, each ? 3 : 2);
		cr_expect_eq(segments(m)[0].marker, marks[0]);
		cr_expect_eq(segments(m)[0].end, each ? 2 : 4);
		cr_expect_eq(segments(m)[1].marker, marks[1]);
		cr_expect_eq((int64_t)words(m)[5], each ? -2 : 200);
		machine_free(m);
	}
}

/* ---- lists that a tenant has made */

/* The name of the task behind the frames: as many bytes of its object as are there. */
Test(runtime, names_of_tasks)
{
	const uint64_t task = HEAP + 0x1400, name = HEAP + 0x1800, last = HEAP + HEAP_BYTES - 64;
	struct runtime_walk walk = walk_by_key;
	const struct sample_task *t;
	struct machine *m;

	walk.flags = RUNTIME_WALK_TASKS;
	walk.scope = 872;
	walk.scope_name = 136;
	walk.type = 8;
	walk.bias = 0x1000;
	walk.layout = 9;
	m = process_new(&walk);
	run_put(m, FRAMES, 2, 0);
	cr_assert_eq(runtime_walk(m).n_words, 4);
	cr_expect_eq(runtime_attach_task(), 0, "no task runs");
	machine_poke(m, STATE + 872, task);
	machine_poke(m, task + 136, name);
	machine_poke(m, name + 8, 77);
	machine_poke(m, name + 88, 88);
	cr_assert_eq(runtime_walk(m).n_words, 4);
	m->area.state.n = 5;
	m->area.state.runtime_words = 6;
	cr_expect_eq(runtime_attach_task(), (int)(sizeof *t / 8));
	t = (const struct sample_task *)(m->area.frames + 11);
	cr_expect(t->type == 77 && t->bias == 0x1000 && t->layout == 9);
	cr_expect(t->bytes == SAMPLE_TASK_BYTES && t->object[88] == 88);
	machine_poke(m, task + 136, last); /* at the end of the memory */
	cr_expect_eq(runtime_attach_task(), (int)(sizeof *t / 8));
	cr_expect_eq(t->bytes, SAMPLE_TASK_BYTES_MIN);
	machine_poke(m, task + 136, last + 32);
	cr_expect_eq(runtime_attach_task(), 0, "not even that is there");
	machine_poke(m, task + 136, 8);
	cr_expect_eq(runtime_attach_task(), 0);
	walk.flags = 0;
	walk_set(m, &walk);
	cr_assert_eq(runtime_walk(m).n_words, 4);
	cr_expect_eq(m->area.runtime.task, 0, "not wanted");
	machine_free(m);
}

/* Threads run copies of a function's instructions: places are those in the code object itself. */
Test(runtime, copies_of_instructions)
{
	const uint64_t codes = CODES + CODE_BYTES, copies = HEAP + 0x1400, copy = HEAP + 0x1800;
	struct runtime_walk walk = walk_by_key;
	struct machine *m;

	walk.flags = RUNTIME_WALK_COPIES;
	walk.instructions = 216;
	walk.n_instructions = 72;
	m = process_new(&walk);
	machine_poke(m, codes + 216, copies);
	machine_poke(m, copies, 3);
	machine_poke(m, copies + 8, codes + 232);
	machine_poke(m, copies + 16, copy - 0x100);
	machine_poke(m, copies + 24, copy);
	frame_put(m, FRAMES, 0, 1, 242, 0);
	machine_poke(m, STATE + 72, FRAMES);
	cr_assert_eq(runtime_walk(m).n_words, 2);
	cr_expect_eq(words(m)[1], 242, "in the code object itself");
	machine_poke(m, FRAMES + 56, copy + 10);
	machine_poke(m, FRAMES + 72, 2);
	cr_assert_eq(runtime_walk(m).n_words, 2);
	cr_expect_eq(words(m)[1], 242, "in a copy: %lu", words(m)[1]);
	machine_poke(m, copies + 24, 0); /* what is no address in a copy is no place in the function */
	cr_assert_eq(runtime_walk(m).n_words, 2);
	cr_expect_gt(words(m)[1], 0xffffff);
	machine_poke(m, codes + 216, 8); /* unreadable */
	cr_assert_eq(runtime_walk(m).n_words, 2);
	cr_expect_eq(words(m)[1], copy + 10 - codes);
	machine_free(m);
}

Test(runtime, circle)
{
	struct machine *m = process_new(&walk_by_key);
	struct runtime_part p;

	run_put(m, FRAMES, 3, FRAMES + 2 * FRAME_BYTES);
	p = runtime_walk(m);
	cr_expect_eq(p.n_words, 2 * RUNTIME_FRAMES_MAX);
	cr_expect_eq(p.whole, 0);
	cr_expect_eq(p.reason, RUNTIME_REASON_DEPTH_LIMIT);

	frame_put(m, FRAMES, FRAMES, 0, 0, HIDDEN); /* of hidden frames, which give no words */
	machine_poke(m, STATE + 72, FRAMES);
	p = runtime_walk(m);
	cr_expect_eq(p.n_words, 0);
	cr_expect_eq(p.reason, RUNTIME_REASON_DEPTH_LIMIT);
	machine_free(m);
}

struct broken_case {
	const char *name;
	uint64_t address, word; /* written over */
	unsigned n_words;
	int reason;
};

Test(runtime, broken_lists)
{
	static const struct broken_case cases[] = {
		{"next frame in no memory", FRAMES + FRAME_BYTES + 8, 0x10000, 4, RUNTIME_REASON_READ_FAULT},
		{"next frame at the end of memory", FRAMES + FRAME_BYTES + 8, HEAP + HEAP_BYTES - 8, 4,
		 RUNTIME_REASON_READ_FAULT},
		{"next frame in the kernel", FRAMES + FRAME_BYTES + 8, ~0xfffull, 4,
		 RUNTIME_REASON_READ_FAULT},
		{"code in no memory", FRAMES + FRAME_BYTES, 0x10000, 2, RUNTIME_REASON_INCONSISTENT},
		{"no code", FRAMES + FRAME_BYTES, 0, 2, RUNTIME_REASON_INCONSISTENT},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct broken_case *c = &cases[i];
		struct machine *m = process_new(&walk_by_key);
		struct runtime_part p;

		run_put(m, FRAMES, 3, 0);
		machine_poke(m, c->address, c->word);
		p = runtime_walk(m);
		cr_expect_eq(p.n_words, c->n_words, "%s: %u words", c->name, p.n_words);
		cr_expect_eq(p.reason, c->reason, "%s: %u", c->name, p.reason);
		cr_expect_eq(p.whole, 0, "%s", c->name);
		cr_expect_eq(p.n_segments, 1, "%s", c->name);
		machine_free(m);
	}
}

Test(runtime, more_segments_than_a_record_has)
{
	struct machine *m = process_new(&walk_by_key);
	const unsigned n = RUNTIME_SEGMENTS_MAX + 10;
	struct runtime_part p;

	for (unsigned i = 0; i < n; i++) {
		frame_put(m, FRAMES + i * 192, FRAMES + i * 192 + 96, i % 64, 200, 0);
		frame_put(m, FRAMES + i * 192 + 96, i + 1 < n ? FRAMES + (i + 1) * 192 : 0, 0, 0, HIDDEN);
	}
	machine_poke(m, STATE + 72, FRAMES);
	p = runtime_walk(m);
	cr_expect_eq(p.n_words, 2 * n);
	cr_expect_eq(p.n_segments, RUNTIME_SEGMENTS_MAX);
	cr_expect_eq(segments(m)[RUNTIME_SEGMENTS_MAX - 1].end, 2 * n);
	cr_expect_eq(p.whole, 1);
	machine_free(m);
}

/* ---- native frames that hold markers */

#define BIAS 0x400000ull
#define CODE (BIAS + 0x1000)
#define ROOT (BIAS + 0x2000)
#define NATIVE_FRAME 64

/* Native frames of 64 bytes from STACK on, the last one the root's. Ends the walk. */
static int native_walk(struct machine *m, unsigned n)
{
	const struct machine_row rows[] = {{CODE - BIAS, RULE_SP(NATIVE_FRAME)},
					   {ROOT - BIAS, RULE_ROOT},
					   {ROOT - BIAS + 64, RULE_NONE}};
	uint64_t next_marker = m->area.state.next_marker;

	machine_map_table(m, BIAS, 9, rows, ARRAY_SIZE(rows));
	for (unsigned i = 1; i < n; i++)
		machine_poke(m, STACK + NATIVE_FRAME * i - 8, (i + 1 == n ? ROOT : CODE) + 1);
	machine_start(m, machine_list(m, 0), CODE, STACK, 0, 512);
	m->area.state.next_marker = next_marker;
	return machine_walk(m);
}

Test(runtime, segments_are_tied_to_native_frames)
{
	struct machine *m = process_new(&walk_by_key);
	const uint64_t markers[] = {STACK + NATIVE_FRAME * 2, STACK + NATIVE_FRAME * 3 - 8,
				    STACK + NATIVE_FRAME * 7 + 24, STACK + NATIVE_FRAME * 40};
	static const uint32_t native[] = {2, 2, 7, RUNTIME_NOT_TIED};

	for (unsigned i = 0; i < 4; i++) {
		frame_put(m, FRAMES + i * 192, FRAMES + i * 192 + 96, i, 200, 0);
		frame_put(m, FRAMES + i * 192 + 96, i < 3 ? FRAMES + (i + 1) * 192 : 0, 0, 0, HIDDEN);
	}
	machine_poke(m, STATE + 72, FRAMES);
	runtime_walk(m);
	for (unsigned i = 0; i < 4; i++)
		((struct runtime_segment *)(m->area.frames + RUNTIME_KEPT))[i].marker = markers[i];
	m->area.state.next_marker = markers[0];
	expect_ending(native_walk(m, 12), ENDING_ROOT);
	for (unsigned i = 0; i < 4; i++)
		cr_expect_eq(segments(m)[i].native, native[i], "segment %u at %u", i, segments(m)[i].native);

	m->area.record.n_kernel = 0;
	cr_expect_eq(runtime_attach(), 1 + 4 * 2 + 8);
	cr_expect_eq(((struct runtime_part *)(m->area.frames + 12))->n_segments, 4);
	cr_expect_eq(((struct runtime_segment *)(m->area.frames + 13))[2].native, 7);
	cr_expect(frame_is_runtime(m->area.frames[12 + 1 + 8]));
	machine_free(m);
}

/* A marker below the stack pointer is in no frame; those behind it still are. */
Test(runtime, a_marker_below_the_stack)
{
	struct machine *m = process_new(&walk_by_key);
	struct runtime_segment *s = (struct runtime_segment *)(m->area.frames + RUNTIME_KEPT);

	m->area.runtime.part = (struct runtime_part){.n_segments = 2, .n_words = 4};
	s[0] = (struct runtime_segment){STACK - 0x1000, RUNTIME_NOT_TIED, 2, 0};
	s[1] = (struct runtime_segment){STACK + NATIVE_FRAME * 5, RUNTIME_NOT_TIED, 4, 0};
	m->area.runtime.next = 0;
	m->area.state.next_marker = s[0].marker;
	expect_ending(native_walk(m, 12), ENDING_ROOT);
	cr_expect_eq(segments(m)[0].native, RUNTIME_NOT_TIED);
	cr_expect_eq(segments(m)[1].native, 5);
	machine_free(m);
}

/* ---- a list at a constant address, of frames whose instructions have lines (PHP) */

#define START (HEAP + 0x1800)
#define INSTRUCTIONS (HEAP + 0x30000)
#define N_INSTRUCTIONS 10u
#define FUNCTION_NATIVE 1u
#define FUNCTION_OWN 2u
#define LAST (1ull << 17)
#define LEAF_REGISTER 12u

static const struct runtime_walk walk_of_lines = {
	.salt = SECRET,
	.start = START,
	.flags = RUNTIME_WALK_ENTRY | RUNTIME_WALK_SKIP | RUNTIME_WALK_LINES,
	.runtime = RUNTIME_PHP,
	.frame_bytes = 56,
	.next = 48,
	.code = 24,
	.kind = 42,
	.entry_mask = 2,
	.kinds = 1u << FUNCTION_OWN | 1u << 4,
	.leaf_register = LEAF_REGISTER,
	.content_bytes = 24,
	.name = 8,
	.file = 152,
	.instructions = 88,
	.n_instructions = 80,
	.instruction_bytes = 32,
	.line = 24,
};

static uint64_t instruction_of(unsigned code, unsigned i)
{
	return INSTRUCTIONS + (code * N_INSTRUCTIONS + i) * 32;
}

/* Functions 1 to 9 have the lines 100 to 109, 200 to 209 and so on; 10 and above are native. */
static struct machine *lines_process(void)
{
	struct machine *m = process_new(&walk_of_lines);

	for (unsigned code = 1; code < 20; code++) {
		machine_poke(m, CODES + code * CODE_BYTES, code < 10 ? FUNCTION_OWN : FUNCTION_NATIVE);
		machine_poke(m, CODES + code * CODE_BYTES + 8, HEAP + code * 64);
		machine_poke(m, CODES + code * CODE_BYTES + 80, N_INSTRUCTIONS);
		machine_poke(m, CODES + code * CODE_BYTES + 88, instruction_of(code, 0));
		for (unsigned i = 0; i < N_INSTRUCTIONS; i++)
			machine_poke(m, instruction_of(code, i) + 24, 7ull << 32 | (code * 100 + i));
	}
	return m;
}

/* Frame `i`, which was called by frame i + 1. Without a code: a frame that is none. */
static void call_put(struct machine *m, unsigned i, unsigned code, uint64_t instruction, uint64_t info,
		     bool has_next)
{
	uint64_t at = FRAMES + (20 - i) * 96;

	machine_poke(m, at, instruction);
	machine_poke(m, at + 24, code ? CODES + code * CODE_BYTES : 0);
	machine_poke(m, at + 40, info | 0x0001000100000000ull);
	machine_poke(m, at + 48, has_next ? at - 96 : 0);
	if (!i)
		machine_poke(m, START, at);
}

Test(runtime, lines_and_frames_that_are_none)
{
	struct machine *m = lines_process();
	struct runtime_part p;

	call_put(m, 0, 0, 0, 0, true); /* none */
	call_put(m, 1, 1, instruction_of(1, 3), 0, true);
	call_put(m, 2, 2, instruction_of(2, 9), LAST, true);
	call_put(m, 3, 10, 0x123456, LAST, true); /* native code is run by no loop */
	call_put(m, 4, 0, 0, LAST, true);
	call_put(m, 5, 3, instruction_of(3, 0), LAST, false);
	p = runtime_walk(m);
	cr_assert_eq(p.n_words, 8);
	cr_expect_eq(p.whole, 1);
	cr_expect_eq(p.runtime, RUNTIME_PHP);
	cr_assert_eq(p.n_segments, 2);
	cr_expect_eq(segments(m)[0].end, 4);
	cr_expect_eq(segments(m)[0].marker, 0);
	cr_expect_eq(segments(m)[1].end, 8);
	cr_expect_eq(words(m)[1], 103);
	cr_expect_eq(words(m)[3], 209);
	cr_expect_eq(words(m)[5], 0, "native code has no line");
	cr_expect_eq(words(m)[7], 300);
	machine_free(m);
}

/* The one list of a process is its main thread's: others run native code, beside whatever that is doing. */
Test(runtime, a_list_of_the_main_thread)
{
	struct machine *m = lines_process();

	call_put(m, 0, 1, instruction_of(1, 3), LAST, false);
	m->env.is_other = 1;
	cr_expect_eq(runtime_walk(m).n_words, 0);
	m->env.is_other = 0;
	cr_expect_eq(runtime_walk(m).n_words, 2);
	machine_free(m);
}

#define BLOCK (HEAP + 0x1a00) /* a thread's */
#define GLOBALS_AT 48u	      /* in it */
#define OFFSET (HEAP + 0x1900)
#define CURRENT 488u
#define SLOT (-16)

/* Built for threads: a list in each thread's block, which a thread-local variable has. */
static struct machine *block_process(struct runtime_walk *walk)
{
	struct machine *m = lines_process();

	*walk = walk_of_lines;
	walk->start = OFFSET;
	walk->flags |= RUNTIME_WALK_BLOCK | RUNTIME_WALK_SEARCH;
	walk->thread = 16;
	walk->first = CURRENT;
	walk_set(m, walk);
	call_put(m, 0, 1, instruction_of(1, 3), 0, true);
	call_put(m, 1, 2, instruction_of(2, 4), LAST, false);
	machine_poke(m, OFFSET, GLOBALS_AT);
	machine_poke(m, THREAD + SLOT, BLOCK);
	machine_poke(m, BLOCK + 16, THREAD - SELF_BYTES);
	machine_poke(m, BLOCK + GLOBALS_AT + 8, 0xabcd00000000ull | RUNTIME_BLOCK_NULL);
	machine_poke(m, BLOCK + GLOBALS_AT + 24, RUNTIME_BLOCK_ERROR);
	machine_poke(m, BLOCK + GLOBALS_AT + CURRENT, FRAMES + 20 * 96);
	return m;
}

Test(runtime, a_list_of_each_thread)
{
	struct runtime_walk walk;
	struct machine *m = block_process(&walk);

	m->env.is_other = 1;
	cr_assert_eq(runtime_walk(m).n_words, 4, "a search");
	cr_expect_eq(words(m)[1], 103);
	cr_expect_eq(words(m)[3], 204);
	walk.flags &= (uint16_t)~RUNTIME_WALK_SEARCH;
	walk_set(m, &walk);
	cr_expect_eq(runtime_walk(m).n_words, 0);
	walk.slot = SLOT;
	walk_set(m, &walk);
	cr_expect_eq(runtime_walk(m).n_words, 4, "where it was found");
	machine_poke(m, BLOCK + GLOBALS_AT + CURRENT, 0);
	cr_expect_eq(runtime_walk(m).n_words, 0, "the thread runs no function");
	cr_expect_eq(m->area.runtime.part.reason, 0);
	machine_free(m);
}

Test(runtime, blocks_that_are_none)
{
	static const struct {
		const char *name;
		uint64_t address, word;
	} cases[] = {
		{"another thread's", BLOCK + 16, THREAD + 8},
		{"a pointer to nowhere", THREAD + SLOT, 0x10000},
		{"no pointer", THREAD + SLOT, 0},
		{"an offset that leads nowhere", OFFSET, 1ull << 40},
		{"an offset of another place", OFFSET, GLOBALS_AT + 8},
		{"no null", BLOCK + GLOBALS_AT + 8, 1ull << 32},
		{"no error", BLOCK + GLOBALS_AT + 24, RUNTIME_BLOCK_ERROR + 1},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		for (int known = 0; known < 2; known++) {
			struct runtime_walk walk;
			struct machine *m = block_process(&walk);

			walk.slot = known ? SLOT : 0;
			walk_set(m, &walk);
			machine_poke(m, cases[i].address, cases[i].word);
			cr_expect_eq(runtime_walk(m).n_words, 0, "%s", cases[i].name);
			machine_free(m);
		}
}

/* Instructions that are none of the function's are not looked at. */
Test(runtime, instructions_that_are_none)
{
	static const uint64_t bad[] = {0, 0x10000, ~0ull, INSTRUCTIONS - 32};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct machine *m = lines_process();

		call_put(m, 0, 1, bad[i], 0, true);
		call_put(m, 1, 2, instruction_of(3, 0), LAST, false);
		cr_assert_eq(runtime_walk(m).n_words, 4);
		cr_expect_eq(words(m)[1], 0);
		cr_expect_eq(words(m)[3], 0, "another function's");
		machine_free(m);
	}
}

/* The innermost frame's instruction is in a register, if that has one of this function. */
Test(runtime, the_leaf_s_register)
{
	struct machine *m = lines_process();

	call_put(m, 0, 1, instruction_of(1, 3), 0, true);
	call_put(m, 1, 1, instruction_of(1, 4), LAST, false);
	m->area.state.regs[LEAF_REGISTER] = instruction_of(1, 7);
	cr_assert_eq(runtime_walk(m).n_words, 4);
	cr_expect_eq(words(m)[1], 107);
	cr_expect_eq(words(m)[3], 104);
	m->area.state.regs[LEAF_REGISTER] = instruction_of(2, 0);
	runtime_walk(m);
	cr_expect_eq(words(m)[1], 103);
	machine_free(m);
}

/* Names that take the memory of others: their hashes differ, or as long as they have none, their texts. */
Test(runtime, numbers_of_strings)
{
	const uint64_t name = HEAP + 64, file = HEAP + 0x1500, class = HEAP + 0x1600,
		       class_name = HEAP + 0x1700;
	static const struct {
		const char *what;
		uint64_t address;
	} changes[] = {
		{"the name's hash", HEAP + 64 + 8},	 {"the file's length", HEAP + 0x1500 + 16},
		{"the file's text", HEAP + 0x1500 + 24}, {"its end", HEAP + 0x1500 + 24 + 40},
		{"the class's name", HEAP + 0x1700 + 8},
	};
	struct runtime_walk walk = walk_of_lines;
	struct machine *m = lines_process();
	uint64_t last;

	walk.text_length = 16;
	walk.scope = 16;
	walk.scope_name = 8;
	walk_set(m, &walk);
	machine_poke(m, name + 8, 77);
	machine_poke(m, CODES + CODE_BYTES + walk.file, file);
	machine_poke(m, file + 16, 50);
	machine_poke(m, CODES + CODE_BYTES + walk.scope, class);
	machine_poke(m, class + 8, class_name);
	machine_poke(m, class_name + 8, 88);
	call_put(m, 0, 1, 0, LAST, false);
	cr_assert_eq(runtime_walk(m).n_words, 2);
	last = words(m)[0];
	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		machine_poke(m, changes[i].address, 49);
		cr_assert_eq(runtime_walk(m).n_words, 2, "%s", changes[i].what);
		cr_expect_neq(words(m)[0], last, "%s", changes[i].what);
		last = words(m)[0];
	}
	machine_poke(m, file + 8, 99);
	runtime_walk(m);
	last = words(m)[0];
	machine_poke(m, file + 24, 50);
	runtime_walk(m);
	cr_expect_eq(words(m)[0], last, "a hash stands for its text");
	machine_free(m);
}

Test(runtime, numbers_of_functions_with_lines)
{
	struct machine *m = lines_process();
	uint64_t first;

	call_put(m, 0, 1, 0, 0, true);
	call_put(m, 1, 10, 0, 0, true);
	call_put(m, 2, 11, 0, LAST, false);
	machine_poke(m, CODES + 11 * CODE_BYTES + 8, 0);
	cr_assert_eq(runtime_walk(m).n_words, 4, "native code without a name is no function");
	first = words(m)[0];
	machine_poke(m, CODES + CODE_BYTES + 152, 1);
	runtime_walk(m);
	cr_expect_neq(words(m)[0], first, "another file");
	machine_poke(m, START, 0x10000);
	cr_expect_eq(runtime_walk(m).reason, RUNTIME_REASON_READ_FAULT);
	machine_poke(m, START, 0);
	cr_expect_eq(runtime_walk(m).n_words, 0, "no function runs");
	machine_free(m);
}
