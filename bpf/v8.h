/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Functions of V8 (RUNTIME_SHAPE_NATIVE). Code that V8 has compiled, and its interpreter, make a frame
 * record and put below it, in words: the context, the JSFunction, the number of arguments; the interpreter
 * then its BytecodeArray and where in it the frame is, the same number plus the offset of the bytecode, as a
 * Smi. All other frames of V8 have an even word, their type, in place of the context.
 *
 *	frame record ─► JSFunction ─► SharedFunctionInfo ─► Script
 *	                                    └─► name, or ScopeInfo ─► name
 *
 * A JSFunction is a young object, which moves; so the walk goes on to the SharedFunctionInfo at once. What
 * identifies a function is the number of its script, which no other script of the program gets, and its
 * number in the script. Pointers to objects have the lowest bit set. An object that a collection of garbage
 * has just moved has its new address, which is even, in place of its map, but is as it was otherwise.
 */
#ifndef PROFLET_BPF_V8_H
#define PROFLET_BPF_V8_H

#include "bpf/memory.h"
#include "bpf/runtime.h"

#define V8_FRAME_CONTEXT (-8)
#define V8_FRAME_FUNCTION (-16)
#define V8_FRAME_BYTECODES (-32)
#define V8_FRAME_OFFSET (-40)
#define V8_SHARED_BYTES 64u /* that are read of a SharedFunctionInfo, of a Script */
#define V8_SCRIPT_BYTES 72u
#define V8_FOUND_MAX 64u /* functions of a sample that are reported; power of two */
#define V8_FOUND (RUNTIME_KEPT_WORDS + 2 * RUNTIME_FRAMES_MAX) /* where they are kept, in frames[] */
#define V8_STEPS_A_CALL 8
#define V8_FOLLOWED_A_CALL 16
#define V8_FOLLOWED_MAX (V8_SEGMENTS_MAX + 64u) /* frame records, of which some are no functions' */
#define V8_BYTECODE_MAX (1u << 30)
#define V8_ENTRY 2u   /* frame types below: JavaScript that native code has called */
#define V8_TYPES 256u /* a word with a frame's type is less */
/* What is read of a frame at once: from V8_FRAME_OFFSET on. */
#define V8_RECORD_WORDS 7

_Static_assert(V8_FOUND + 2 * V8_FOUND_MAX <= RUNTIME_SCRATCH, "V8_FOUND");
_Static_assert(V8_SHARED_BYTES <= RUNTIME_SCRATCH_BYTES / 2 && V8_SCRIPT_BYTES <= RUNTIME_SCRATCH_BYTES / 2,
	       "RUNTIME_SCRATCH_BYTES");

static __always_inline int v8_is_pointer(__u64 word)
{
	return (word & 3) == 1;
}

/*
 * Whether an object whose first word is `map` has the type. Maps that do are remembered in `known`: nearly
 * all objects of a type have the same.
 */
static __always_inline int v8_has_type(const struct runtime_v8 *v8, __u64 *known, __u64 map, __u16 type)
{
	__u16 is;

	if (map && !(map & 1) && user_word(map, &map)) /* moved */
		return 0;
	if (map == *known)
		return map != 0;
	if (!v8_is_pointer(map) || env_read_user(&is, sizeof is, map - 1 + v8->map_type) || is != type)
		return 0;
	*known = map;
	return 1;
}

/* One of the words that were read of an object. */
static __always_inline __u64 v8_word(const struct unwind_area *a, __u64 from, __u64 offset)
{
	offset >>= 3;
	BOUND(offset, 15);
	return a->frames[from + offset];
}

/* Reads the Script, and adds what identifies it to a number. 0: it is none. */
static __always_inline __u64 v8_script_mix(struct unwind_area *a, __u64 h, __u64 script)
{
	struct runtime_state *r = &a->runtime;
	const struct runtime_v8 *v8 = &r->walk.v8;

	if (!v8_is_pointer(script) ||
	    env_read_user(a->frames + RUNTIME_SCRATCH_TEXT, V8_SCRIPT_BYTES, script - 1) ||
	    !v8_has_type(v8, &r->v8.script_map, a->frames[RUNTIME_SCRATCH_TEXT], v8->script_type))
		return 0;
	h = number_mix(h, v8_word(a, RUNTIME_SCRATCH_TEXT, v8->script_id));
	h = number_mix(h, v8_word(a, RUNTIME_SCRATCH_TEXT, v8->script_name));
	return number_mix(h, v8_word(a, RUNTIME_SCRATCH_TEXT, v8->script_source)) | 1;
}

/* The number of a SharedFunctionInfo; 0: it is none, or of a function of V8's own. */
static __always_inline __u64 v8_shared_number(struct unwind_area *a, __u64 shared)
{
	struct runtime_state *r = &a->runtime;
	const struct runtime_v8 *v8 = &r->walk.v8;
	__u64 literal, h;

	if (!v8_is_pointer(shared) ||
	    env_read_user(a->frames + RUNTIME_SCRATCH, V8_SHARED_BYTES, shared - 1) ||
	    !v8_has_type(v8, &r->v8.shared_map, a->frames[RUNTIME_SCRATCH], v8->shared_type))
		return 0;
	literal = v8_word(a, RUNTIME_SCRATCH, v8->shared_literal) >> (v8->shared_literal & 4) * 8;
	h = number_mix(r->walk.salt ^ shared * 0x9e3779b97f4a7c15ull, (__u32)literal);
	return v8_script_mix(a, h, v8_word(a, RUNTIME_SCRATCH, v8->shared_script));
}

/*
 * The number of a JSFunction; 0: it is none of a script. The last ones are remembered, and those that are
 * seen for the first time in a sample are noted, to be reported when the walk has ended: Linux 5.10 adds up
 * the stacks of all callers.
 */
UNWIND_FN __u64 v8_number(__u64 function)
{
	struct unwind_area *a = env_area();
	__u64 i = function >> 5 ^ function >> 8, shared = 0, at;
	struct runtime_memo *memo;
	struct runtime_state *r;

	if (!a)
		return 0;
	r = &a->runtime;
	BOUND(i, RUNTIME_MEMO - 1);
	memo = &r->memo[i];
	if (memo->code == function)
		return memo->number;
	memo->code = function;
	memo->number = 0;
	if (user_word(function - 1 + r->walk.v8.function_shared, &shared))
		return 0;
	memo->number = v8_shared_number(a, shared);
	if (!memo->number || r->v8.n_found >= V8_FOUND_MAX)
		return memo->number;
	at = r->v8.n_found++;
	BOUND(at, V8_FOUND_MAX - 1);
	a->frames[V8_FOUND + at * 2] = memo->number;
	a->frames[V8_FOUND + at * 2 + 1] = shared;
	return memo->number;
}

/* Whether the frame is one of the interpreter, or may be one of compiled code. */
static __always_inline int v8_may_run(struct unwind_area *a, __u64 fp, int is_own_file)
{
	struct runtime_state *r = &a->runtime;
	__u64 bytecodes, map;

	if (!is_own_file)
		return !a->state.bias; /* code in no file */
	return !stack_word(a, fp + V8_FRAME_BYTECODES, &bytecodes) && v8_is_pointer(bytecodes) &&
	       !user_word(bytecodes - 1, &map) &&
	       v8_has_type(&r->walk.v8, &r->v8.bytecode_map, map, r->walk.v8.bytecode_type);
}

/*
 * Where in its function a frame of the interpreter is; 0: not known. `offset`: what the frame has at
 * V8_FRAME_OFFSET.
 */
static __always_inline __u64 v8_bytecode(const struct runtime_v8 *v8, __u64 offset)
{
	if ((__u32)offset || offset >> 32 >= V8_BYTECODE_MAX || (offset >> 32) + 1 < v8->bytecode_data)
		return 0;
	return FRAME_V8_BYTECODE | ((offset >> 32) + 1 - v8->bytecode_data);
}

/* The same of any frame, as a word with FRAME_TAG_BYTECODE. */
static __always_inline __u64 v8_place(struct unwind_area *a, __u64 fp, int is_own_file)
{
	__u64 offset;

	if (!is_own_file)
		return frame_native(FRAME_TAG_BYTECODE, a->state.tie_ip);
	if (stack_word(a, fp + V8_FRAME_OFFSET, &offset))
		return frame_native(FRAME_TAG_BYTECODE, 0);
	return frame_native(FRAME_TAG_BYTECODE, v8_bytecode(&a->runtime.walk.v8, offset));
}

/* Whether the frame's code is what V8 has compiled: in no file, and it keeps frame records. */
static __always_inline int v8_is_compiled(const struct unwind_area *a)
{
	return a->state.runtime_at && a->runtime.walk.shape == RUNTIME_SHAPE_NATIVE && !a->state.bias &&
	       a->state.tag >> FRAME_VA_BITS != a->runtime.walk.layout;
}

/*
 * Adds a function to the part of the record behind the native frames, with its frame record, so that user
 * space can tie it to the native frame that it finds there; `native` is the one that the walk is at, or
 * RUNTIME_NOT_TIED. Returns 0: there is no room.
 */
static __always_inline int v8_add(struct unwind_area *a, __u64 fp, __u64 number, __u64 place, __u32 native)
{
	struct runtime_state *r = &a->runtime;
	__u64 at = RUNTIME_KEPT_WORDS + r->part.n_words;

	if (r->part.n_segments >= V8_SEGMENTS_MAX)
		return 0;
	if (at > V8_FOUND - 2)
		return 0;
	a->frames[at] = frame_runtime_head(RUNTIME_V8, 1, number);
	a->frames[at + 1] = place;
	r->part.n_words += 2;
	*runtime_segment(a, r->part.n_segments) =
		(struct runtime_segment){.marker = fp, .native = native, .end = r->part.n_words};
	r->part.n_segments++;
	return 1;
}

/*
 * The native frame that the walk is at, [state.tie_sp, state.tie_cfa): if it is one of a function of a
 * script, its words take the place of its address.
 */
UNWIND_FN int v8_frame(__u32 native)
{
	struct unwind_area *a = env_area();
	struct unwind_state *t;
	__u64 fp, context, function, number, place, n;
	int is_own_file;

	if (!a)
		return 0;
	t = &a->state;
	fp = t->tie_cfa - FRAME_RECORD_BYTES; /* where it is, if there is one */
	is_own_file = t->tag >> FRAME_VA_BITS == a->runtime.walk.layout;
	/* below the stack pointer is what another frame has left there */
	if (fp & 7 || fp + V8_FRAME_FUNCTION < t->tie_sp || stack_word(a, fp + V8_FRAME_CONTEXT, &context) ||
	    !v8_is_pointer(context) || stack_word(a, fp + V8_FRAME_FUNCTION, &function) ||
	    !v8_is_pointer(function) || !v8_may_run(a, fp, is_own_file))
		return 0;
	number = v8_number(function);
	if (!number)
		return 0;
	place = v8_place(a, fp, is_own_file);
	/* the native walk may be repeated in user space */
	if (a->record.flags & SAMPLE_FROM_START && v8_add(a, fp, number, frame_va(place), native))
		return 0;
	n = t->n;
	BOUND(n, RECORD_FRAMES - 1);
	a->frames[n] = frame_runtime_head(RUNTIME_V8, 0, number);
	if (!t->ring && ++n < t->limit) {
		BOUND(n, RECORD_FRAMES - 1);
		a->frames[n] = place;
		t->n = (__u32)n; /* the caller adds the frame itself */
	}
	return 0;
}

/*
 * The frame at `fp` is that of JavaScript's entry from native code: goes on where JavaScript called that
 * native code, the record of whose frame the entry has saved. 1: so; 0: it is the outermost entry, or not
 * known.
 */
static __always_inline int v8_leave(struct unwind_area *a, __u64 fp)
{
	struct runtime_state *r = &a->runtime;
	__u64 exit, type;

	if (user_word(fp + V8_ENTRY_EXIT, &exit) || exit & 7 || exit <= fp || exit - fp >= FRAME_BYTES_MAX ||
	    user_word(exit + V8_FRAME_CONTEXT, &type) || type & 1 || type >= V8_TYPES)
		return 0;
	r->cursor = exit;
	return 1;
}

/*
 * One frame of the chain of frame records at runtime.cursor, of code at runtime.marker: 1: there may be more.
 */
UNWIND_FN int v8_follow(void)
{
	struct unwind_area *a = env_area();
	__u64 words[V8_RECORD_WORDS], fp, number, place;
	struct runtime_state *r;

	if (!a)
		return 0;
	r = &a->runtime;
	fp = r->cursor;
	if (fp & 7 || env_read_user(words, sizeof words, fp + V8_FRAME_OFFSET))
		return 0;
	/*
	 * words: offset, bytecodes, number of arguments, function, context, caller's record, return address
	 */
	if (!(words[4] & 1) && words[4] >> 1 <= V8_ENTRY)
		return v8_leave(a, fp);
	if (v8_is_pointer(words[4]) && v8_is_pointer(words[3]) && fp + V8_FRAME_FUNCTION >= a->state.sp) {
		number = v8_number(words[3]);
		place = v8_bytecode(&r->walk.v8, words[0]);
		if (number)
			v8_add(a, fp, number, place ? place : frame_va(r->marker), RUNTIME_NOT_TIED);
	}
	r->marker = words[6] - 1;
	r->cursor = words[5];
	return words[5] > fp && words[5] - fp < FRAME_BYTES_MAX;
}

/* Follows a part of the chain of frame records. 1: there may be more. */
UNWIND_FN int v8_follow_some(void)
{
	ROLLED
	for (__u32 i = 0; i < V8_FOLLOWED_A_CALL; i++)
		if (!v8_follow())
			return 0;
	return 1;
}

/*
 * The native walk has ended in code that is going to be looked at, or was mapped just now, and is finished
 * without the process's memory: adds the functions of the frames that the chain of frame records leads to,
 * which that will tie to them. What is at the chain's end need not be V8's, and has no names then.
 */
static __always_inline void v8_add_remaining(struct unwind_area *a)
{
	struct runtime_state *r = &a->runtime;

	if ((a->state.pending != TABLE_PENDING && a->state.length) || a->state.ring)
		return;
	r->cursor = a->state.fp;
	r->marker = a->state.ip;
	ROLLED
	for (__u32 i = 0; i < V8_FOLLOWED_MAX / V8_FOLLOWED_A_CALL; i++)
		if (!v8_follow_some())
			return;
	r->part.whole = 0;
	r->part.reason = RUNTIME_REASON_DEPTH_LIMIT;
}

/* Reports functions from number `i` on, as far as they were not reported before. 1: there may be more. */
UNWIND_FN int v8_report_some(__u32 i)
{
	struct unwind_area *a = env_area();

	if (!a)
		return 0;
	ROLLED
	for (__u32 k = 0; k < V8_STEPS_A_CALL; k++) {
		__u64 at = i + k;

		if (at >= a->runtime.v8.n_found)
			return 0;
		BOUND(at, V8_FOUND_MAX - 1);
		env_report_code(a->frames[V8_FOUND + at * 2], a->frames[V8_FOUND + at * 2 + 1]);
	}
	return 1;
}

/* Ends the walk: reports the functions of the sample. */
UNWIND_FN int v8_finish(void)
{
	struct unwind_area *a = env_area();

	if (!a)
		return 0;
	a->runtime.part.whole = a->runtime.part.each = 1;
	v8_add_remaining(a);
	ROLLED
	for (__u32 i = 0; i < V8_FOUND_MAX; i += V8_STEPS_A_CALL)
		if (!v8_report_some(i))
			break;
	return 0;
}

#endif
