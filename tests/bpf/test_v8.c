// SPDX-License-Identifier: Apache-2.0
/* Frames of V8: records on the native stack that lead to functions in a process's memory. */
#include "tests/bpf/runtime_process.h"

#define HEAP 0x50000000ull
#define MAPS HEAP /* 0x40 bytes each */
#define OBJECTS (HEAP + 0x1000)
#define OBJECT_BYTES 0x100ull
#define NATIVE_STACK 0x70000000ull
#define FP (NATIVE_STACK + 0x400)
#define CODE 0x6000000ull
#define OWN_FILE 5u

enum type { SHARED = 262, SCRIPT = 167, SCOPE = 261, BYTECODES = 191, OTHER = 131 };

static const struct runtime_walk walk_v8 = {
	.salt = 0x1234567890abcdef,
	.runtime = RUNTIME_V8,
	.layout = OWN_FILE,
	.shape = RUNTIME_SHAPE_NATIVE,
	.v8 = {.function_shared = 24,
	       .shared_name = 16,
	       .shared_script = 32,
	       .shared_literal = 52,
	       .script_source = 8,
	       .script_name = 16,
	       .script_id = 64,
	       .map_type = 12,
	       .shared_type = SHARED,
	       .script_type = SCRIPT,
	       .scope_type = SCOPE,
	       .bytecode_type = BYTECODES,
	       .scope_first = 3,
	       .scope_function = 2,
	       .bytecode_data = 54},
};

static uint64_t object(unsigned i)
{
	return OBJECTS + i * OBJECT_BYTES;
}

static uint64_t map_of(unsigned type)
{
	return MAPS + (type & 15) * 0x40;
}

static void object_put(struct machine *m, unsigned i, enum type type)
{
	machine_poke(m, object(i), map_of(type) + 1);
	machine_poke(m, map_of(type) + 8, (uint64_t)type << 32);
}

#define FUNCTION_OF(i) (object(3 * (i)) + 1)

/* Function number `i`: a JSFunction, a SharedFunctionInfo, a Script. */
static void function_put(struct machine *m, unsigned i)
{
	const unsigned function = 3 * i, shared = function + 1, script = function + 2;

	object_put(m, function, OTHER);
	machine_poke(m, object(function) + 24, object(shared) + 1);
	object_put(m, shared, SHARED);
	machine_poke(m, object(shared) + 32, object(script) + 1);
	machine_poke(m, object(shared) + 48, (uint64_t)i << 32);
	object_put(m, script, SCRIPT);
	machine_poke(m, object(script) + 64, 7ull << 32);
}

/* The walk is at a frame with this record, whose callee's frame ends at `sp`. */
static void frame_pass(struct machine *m, uint64_t fp, uint64_t sp, uint32_t file, uint64_t bias)
{
	struct unwind_state *t = &m->area.state;

	t->window_len = 0;
	t->bias = bias;
	t->tag = (uint64_t)file << FRAME_VA_BITS;
	t->tie_ip = CODE + 0x123;
	t->tie_sp = sp;
	t->tie_cfa = fp + FRAME_RECORD_BYTES;
	m->area.frames[t->n] = t->tag | t->tie_ip;
	runtime_tie();
	t->n++;
}

static void record_put(struct machine *m, uint64_t fp, uint64_t context, uint64_t function)
{
	machine_poke(m, fp - 8, context);
	machine_poke(m, fp - 16, function);
}

static struct machine *process_new(void)
{
	struct machine *m = machine_new();

	machine_memory(m, HEAP, 0x10000);
	machine_memory(m, NATIVE_STACK, 0x1000);
	for (unsigned i = 0; i < 4; i++)
		function_put(m, i);
	object_put(m, 20, BYTECODES);
	walk_set(m, &walk_v8);
	m->area.state.limit = 16;
	runtime_walk(m);
	cr_expect_eq(m->area.state.next_marker, 0, "every native frame is looked at");
	record_put(m, FP, 0x1001, FUNCTION_OF(1));
	return m;
}

static bool is_function(const struct machine *m, unsigned i)
{
	return frame_is_runtime(m->area.frames[i]) && frame_runtime_of(m->area.frames[i]) == RUNTIME_V8;
}

Test(v8, compiled_code)
{
	_cleanup_machine_ struct machine *m = process_new();

	frame_pass(m, FP, FP - 0x40, FILE_ANONYMOUS, 0);
	cr_assert_eq(m->area.state.n, 2);
	cr_assert(is_function(m, 0));
	cr_expect_eq(m->area.frames[1], frame_native(FRAME_TAG_BYTECODE, CODE + 0x123));
	/* code that is not the process's own and has another place is a library's */
	frame_pass(m, FP, FP - 0x40, 9, 0x7000);
	cr_expect_eq(m->area.state.n, 3);
	cr_expect_not(is_function(m, 2));
}

Test(v8, numbers_tell_functions_apart)
{
	_cleanup_machine_ struct machine *m = process_new();
	const uint64_t *frames = (const uint64_t *)m->area.frames;

	frame_pass(m, FP, FP - 0x40, FILE_ANONYMOUS, 0);
	frame_pass(m, FP, FP - 0x40, FILE_ANONYMOUS, 0);
	cr_expect_eq(frames[0], frames[2]);
	record_put(m, FP, 0x1001, FUNCTION_OF(2));
	frame_pass(m, FP, FP - 0x40, FILE_ANONYMOUS, 0);
	cr_expect_neq(frames[0], frames[4]);
	cr_expect_eq(m->area.runtime.v8.n_found, 2);
	/* another script has taken the memory of everything */
	runtime_walk(m);
	m->area.state.n = 6;
	machine_poke(m, object(8) + 64, 8ull << 32);
	frame_pass(m, FP, FP - 0x40, FILE_ANONYMOUS, 0);
	cr_assert(is_function(m, 6));
	cr_expect_neq(frames[6], frames[4]);
}

Test(v8, interpreter)
{
	_cleanup_machine_ struct machine *m = process_new();

	/* a builtin with the same record */
	frame_pass(m, FP, FP - 0x40, OWN_FILE, 0x1000);
	cr_expect_not(is_function(m, 0));
	machine_poke(m, FP - 32, object(20) + 1);
	machine_poke(m, FP - 40, (53ull + 17) << 32);
	frame_pass(m, FP, FP - 0x40, OWN_FILE, 0x1000);
	cr_assert(is_function(m, 1));
	cr_expect_eq(m->area.frames[2], frame_native(FRAME_TAG_BYTECODE, FRAME_V8_BYTECODE | 17));
	machine_poke(m, FP - 40, 52ull << 32);
	frame_pass(m, FP, FP - 0x40, OWN_FILE, 0x1000);
	cr_expect_eq(m->area.frames[4], frame_native(FRAME_TAG_BYTECODE, 0), "before the bytecode");
	machine_poke(m, FP - 32, object(1) + 1);
	frame_pass(m, FP, FP - 0x40, OWN_FILE, 0x1000);
	cr_expect_not(is_function(m, 5), "no BytecodeArray");
}

/* What does not check stays a native frame. */
Test(v8, doubts)
{
	_cleanup_machine_ struct machine *m = process_new();

	frame_pass(m, FP, FP - 8, FILE_ANONYMOUS, 0);
	cr_expect_not(is_function(m, 0), "the words are below the stack pointer");
	m->area.state.n = 0;
	record_put(m, FP, 22 << 1, FUNCTION_OF(1));
	frame_pass(m, FP, FP - 0x40, FILE_ANONYMOUS, 0);
	cr_expect_not(is_function(m, 0), "a frame of another type");
	m->area.state.n = 0;
	record_put(m, FP, 0x1001, 42ull << 32);
	frame_pass(m, FP, FP - 0x40, FILE_ANONYMOUS, 0);
	cr_expect_not(is_function(m, 0), "a number");
	m->area.state.n = 0;
	record_put(m, FP, 0x1001, object(2) + 1);
	frame_pass(m, FP, FP - 0x40, FILE_ANONYMOUS, 0);
	cr_expect_not(is_function(m, 0), "no function");
	m->area.state.n = 0;
	object_put(m, 5, OTHER);
	record_put(m, FP, 0x1001, FUNCTION_OF(1));
	frame_pass(m, FP, FP - 0x40, FILE_ANONYMOUS, 0);
	cr_expect_not(is_function(m, 0), "a function of V8's own has no script");
}

/* A collection of garbage has moved the SharedFunctionInfo. */
Test(v8, moved)
{
	_cleanup_machine_ struct machine *m = process_new();

	machine_poke(m, object(4), object(30));
	machine_poke(m, object(30), map_of(SHARED) + 1);
	frame_pass(m, FP, FP - 0x40, FILE_ANONYMOUS, 0);
	cr_expect(is_function(m, 0));
	runtime_walk(m);
	m->area.state.n = 0;
	machine_poke(m, object(30), map_of(SCRIPT) + 1);
	frame_pass(m, FP, FP - 0x40, FILE_ANONYMOUS, 0);
	cr_expect_not(is_function(m, 0));
}

Test(v8, no_room_for_the_place)
{
	_cleanup_machine_ struct machine *m = process_new();

	m->area.state.limit = 1;
	frame_pass(m, FP, FP - 0x40, FILE_ANONYMOUS, 0);
	cr_expect_eq(m->area.state.n, 1);
	cr_expect(is_function(m, 0));
}

/*
 * The walk has ended in code that is new: what the chain of records leads to is added, up to where V8 was
 * entered.
 */
Test(v8, remaining_frames)
{
	_cleanup_machine_ struct machine *m = process_new();
	const uint64_t caller = FP + 0x80, entry = FP + 0x100;

	machine_poke(m, FP, caller);
	machine_poke(m, FP + 8, CODE + 0x401);
	record_put(m, caller, 0x1001, FUNCTION_OF(2));
	machine_poke(m, caller - 32, object(20) + 1);
	machine_poke(m, caller - 40, (53ull + 4) << 32);
	machine_poke(m, caller, entry);
	machine_poke(m, entry - 8, 1 << 1);
	m->area.state.pending = TABLE_PENDING;
	m->area.state.bias = 0;
	m->area.state.fp = FP;
	m->area.state.sp = FP - 0x40;
	m->area.state.ip = CODE + 0x123;
	cr_expect_eq(runtime_attach(), 1 + 2 * RUNTIME_SEGMENT_WORDS + 4);
	cr_assert_eq(m->area.runtime.part.n_segments, 2);
	cr_expect(m->area.runtime.part.whole);
	cr_expect_eq(segments(m)[0].marker, FP);
	cr_expect_eq(segments(m)[1].marker, caller);
	cr_expect_eq(segments(m)[1].native, RUNTIME_NOT_TIED);
	cr_expect_eq(frame_runtime_of(words(m)[0]), RUNTIME_V8);
	cr_expect_eq(words(m)[1], CODE + 0x123);
	cr_expect_eq(words(m)[3], FRAME_V8_BYTECODE | 4);
}

/* Records that lead to themselves, or nowhere. */
Test(v8, remaining_frames_that_are_damaged)
{
	_cleanup_machine_ struct machine *m = process_new();

	machine_poke(m, FP, FP);
	m->area.state.pending = TABLE_PENDING;
	m->area.state.fp = FP;
	m->area.state.sp = FP - 0x40;
	runtime_attach();
	cr_expect_eq(m->area.runtime.part.n_segments, 1);
}

/* More of them than there is room for: the innermost ones are in the record. */
Test(v8, remaining_frames_without_room)
{
	_cleanup_machine_ struct machine *m = process_new();
	const uint64_t first = 0x78000040ull, step = 0x80, last = first + (V8_SEGMENTS_MAX + 3) * step;
	const struct runtime_segment *attached;

	machine_memory(m, first - 0x40, last + 2 * step - first);
	for (uint64_t fp = first; fp < last; fp += step) {
		record_put(m, fp, 0x1001, FUNCTION_OF(1));
		machine_poke(m, fp, fp + step);
		machine_poke(m, fp + 8, CODE + 0x401);
	}
	m->area.state.pending = TABLE_PENDING;
	m->area.state.fp = first;
	m->area.state.sp = first - 0x40;
	m->area.state.ip = CODE + 0x123;
	cr_expect_eq(runtime_attach(), 1 + V8_SEGMENTS_MAX * (RUNTIME_SEGMENT_WORDS + 2));
	cr_assert_eq(m->area.runtime.part.n_segments, V8_SEGMENTS_MAX);
	attached = (const struct runtime_segment *)(m->area.frames + m->area.state.n + 1);
	for (unsigned i = 0; i < V8_SEGMENTS_MAX; i++)
		cr_assert_eq(attached[i].end, 2 * (i + 1), "%u", i);
}

/* Native code that JavaScript has called has called JavaScript: the entry has saved where it was left. */
Test(v8, remaining_frames_of_an_outer_call)
{
	_cleanup_machine_ struct machine *m = process_new();
	const uint64_t entry = FP + 0x80, leave = FP + 0x200, outer = FP + 0x280, first = FP + 0x300;

	machine_poke(m, FP, entry);
	machine_poke(m, entry - 8, 1 << 1);
	machine_poke(m, entry + V8_ENTRY_EXIT, leave);
	machine_poke(m, leave - 8, 3 << 1);
	machine_poke(m, leave, outer);
	record_put(m, outer, 0x1001, FUNCTION_OF(3));
	machine_poke(m, outer, first);
	machine_poke(m, first - 8, 2 << 1);
	m->area.state.length = 0; /* the walk has ended outside of all mappings */
	m->area.state.pending = 0;
	m->area.state.fp = FP;
	m->area.state.sp = FP - 0x40;
	runtime_attach();
	cr_assert_eq(m->area.runtime.part.n_segments, 2);
	cr_expect_eq(segments(m)[1].marker, outer);
	cr_expect(m->area.runtime.part.whole);
	/* what is there is no frame of V8's */
	runtime_walk(m);
	machine_poke(m, leave - 8, 0x1001);
	runtime_attach();
	cr_expect_eq(m->area.runtime.part.n_segments, 1);
}

/* A sample whose walk may be repeated has its functions behind the native frames. */
Test(v8, from_start)
{
	_cleanup_machine_ struct machine *m = process_new();

	m->area.record.flags = SAMPLE_FROM_START;
	frame_pass(m, FP, FP - 0x40, FILE_ANONYMOUS, 0);
	cr_expect_not(is_function(m, 0));
	cr_expect_eq(m->area.state.n, 1);
	cr_assert_eq(m->area.runtime.part.n_segments, 1);
	cr_expect_eq(segments(m)[0].marker, FP);
	cr_expect_eq(segments(m)[0].native, 0);
	cr_expect_eq(words(m)[1], CODE + 0x123);
}
