/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Walks the frames of a language runtime, which are a list in the process's memory (struct runtime_walk says
 * where), and ties each segment of them to the native frame that holds its marker. Compiled for the kernel
 * and for the host, as unwind.h is.
 *
 * The list is walked before the native stack. What it gives is kept behind the room for native frames
 * (RUNTIME_KEPT) until these are known, and then moved behind them. A tenant can write anything into such a
 * list: the number of steps is limited, and each read either stays within the process's memory or fails.
 */
#ifndef PROFLET_BPF_RUNTIME_H
#define PROFLET_BPF_RUNTIME_H

#include "bpf/memory.h"

#define RUNTIME_STEPS_A_CALL 8
#define RUNTIME_STEPS_MAX (2 * RUNTIME_FRAMES_MAX) /* with hidden frames */
#define RUNTIME_TIES_A_CALL 4
#define RUNTIME_COPIES_MAX (1u << 16) /* of a function's instructions */
#define RUNTIME_KEYS_MAX 32u	      /* pthread keys whose values lie in the thread control block itself */
/* Where the part is kept during the native walk, in frames[]: its segments, then its words. */
#define RUNTIME_KEPT RECORD_FRAMES
#define RUNTIME_KEPT_WORDS (RUNTIME_KEPT + V8_SEGMENTS_MAX * RUNTIME_SEGMENT_WORDS)
#define RUNTIME_SEGMENT_WORDS (sizeof(struct runtime_segment) / 8)
/*
 * Behind what is kept, in frames[]: what is read at once to make a number of. The stack has no room for it:
 * Linux 5.10 adds up that of all callers.
 */
#define RUNTIME_SCRATCH_BYTES 256u
#define RUNTIME_SCRATCH (RECORD_WORDS - RUNTIME_SCRATCH_BYTES / 8)
#define RUNTIME_SCRATCH_TEXT (RECORD_WORDS - RUNTIME_SCRATCH_BYTES / 16) /* the second half */
#define RUNTIME_TEXT_MIXED (RUNTIME_SCRATCH_BYTES / 2 - 1) /* bytes of a text that go into a number */
#define NO_MARKER (~0ull)				   /* larger than any CFA */
/* With RUNTIME_WALK_BLOCK: how a thread's variables begin, by the types of PHP's null and error. */
#define RUNTIME_BLOCK_WORDS 4
#define RUNTIME_BLOCK_NULL 1u
#define RUNTIME_BLOCK_ERROR 15u
#define NO_FUNCTION 2ull /* in place of the number of a code object, which are odd */

/* With RUNTIME_SHAPE_ARRAY, in ruby.h. */
UNWIND_FN int ruby_enter(__u64 context);
UNWIND_FN int ruby_first(void);

_Static_assert((V8_SEGMENTS_MAX & (V8_SEGMENTS_MAX - 1)) == 0 && V8_SEGMENTS_MAX >= RUNTIME_SEGMENTS_MAX,
	       "V8_SEGMENTS_MAX");
_Static_assert(RUNTIME_KEPT_WORDS + 2 * RUNTIME_FRAMES_MAX <= RUNTIME_SCRATCH, "RUNTIME_SCRATCH");
_Static_assert(RUNTIME_CODE_BYTES_MAX < RUNTIME_SCRATCH_BYTES / 2, "RUNTIME_SCRATCH_BYTES");

static __always_inline int user_word(__u64 address, __u64 *ret)
{
	return env_read_user(ret, sizeof *ret, address);
}

static __always_inline struct runtime_segment *runtime_segment(struct unwind_area *a, __u64 i)
{
	BOUND(i, V8_SEGMENTS_MAX - 1);
	return (struct runtime_segment *)(a->frames + RUNTIME_KEPT) + i;
}

/* RUNTIME_SHAPE_VALUES, in bpf/luajit.h. */
UNWIND_FN int luajit_loop(void);
UNWIND_FN int luajit_step(void);

/* RUNTIME_SHAPE_STATES, in bpf/lua.h; lua_walk for RUNTIME_SHAPE_VALUES, too. */
UNWIND_FN int lua_loop(__u32 native);
UNWIND_FN int lua_walk(void);

/* RUNTIME_SHAPE_NATIVE, in bpf/v8.h. */
UNWIND_FN int v8_frame(__u32 native);
UNWIND_FN int v8_finish(void);

/* RUNTIME_SHAPE_PAIRED, in bpf/perl.h. */
UNWIND_FN int perl_is_state(__u64 state);
UNWIND_FN int perl_is_interpreter(__u64 state);
UNWIND_FN int perl_begin(__u64 state);
UNWIND_FN int perl_steps(void);

/*
 * Whether the block is the sampled thread's (RUNTIME_WALK_BLOCK); then its frames are those that are walked.
 * What follows in it begins with two values, whose types are constant.
 */
UNWIND_FN int block_enter(__u64 block)
{
	struct unwind_area *a = env_area();
	__u64 words[RUNTIME_BLOCK_WORDS], offset, thread, first;
	struct runtime_state *r;

	if (!a || !block)
		return 0;
	r = &a->runtime;
	if (user_word(block + r->walk.thread, &thread) || !arch_is_self(r->thread, thread) ||
	    user_word(r->walk.start, &offset) || env_read_user(words, sizeof words, block + offset) ||
	    (__u32)words[1] != RUNTIME_BLOCK_NULL || (__u32)words[3] != RUNTIME_BLOCK_ERROR ||
	    user_word(block + offset + r->walk.first, &first))
		return 0;
	r->cursor = first;
	return 1;
}

/* Whether the walk begins with coroutines, which frames of the native stack lead to. */
static __always_inline int has_states(const struct runtime_state *r)
{
	return r->walk.shape == RUNTIME_SHAPE_STATES || r->walk.shape == RUNTIME_SHAPE_VALUES;
}

/* Whether `state` is the state of the sampled thread. */
static __always_inline int is_thread_state(const struct runtime_state *r, __u64 state)
{
	__u64 thread;

	if (r->walk.shape == RUNTIME_SHAPE_ARRAY)
		return ruby_enter(state);
	if (r->walk.shape == RUNTIME_SHAPE_PAIRED)
		return perl_is_state(state);
	if (r->walk.flags & RUNTIME_WALK_BLOCK)
		return block_enter(state);
	return state && !user_word(state + r->walk.thread, &thread) && arch_is_self(r->thread, thread);
}

/* The value that the thread has for the pthread key, as glibc and as musl keep it. 0: none that fits. */
static __always_inline __u64 state_by_key(const struct runtime_state *r)
{
	__u64 state, values;
	__u32 key;

	if (!r->walk.key || env_read_user(&key, sizeof key, r->walk.key))
		return 0;
	if (key < RUNTIME_KEYS_MAX && r->walk.tsd != RUNTIME_NO_OFFSET &&
	    !user_word(r->thread + r->walk.tsd + key * 16ull, &state) && is_thread_state(r, state))
		return state;
	if (r->walk.tsd_pointer == RUNTIME_NO_OFFSET || user_word(r->thread + r->walk.tsd_pointer, &values) ||
	    !values || user_word(values + key * 8ull, &state) || !is_thread_state(r, state))
		return 0;
	return state;
}

/* The thread's state, if that is what word `i` of the window points to; else 0. */
UNWIND_FN __u64 state_in_window(__u32 i)
{
	struct unwind_area *a = env_area();
	__u64 state;

	if (!a)
		return 0;
	state = window_word(a, i * 8);
	if (state & 7 || !is_thread_state(&a->runtime, state))
		return 0;
	if (a->runtime.walk.shape == RUNTIME_SHAPE_PAIRED && !perl_is_interpreter(state))
		return 0;
	return state;
}

/*
 * Looks for a variable that has the thread's state, by what it points to, from `from` bytes behind the thread
 * pointer on, and reports it. Returns the state, or 0.
 */
UNWIND_FN __u64 runtime_search_from(__s32 from)
{
	struct unwind_area *a = env_area();

	if (!a)
		return 0;
	a->state.window_len = 0;
	if (env_read_user(a->window, RUNTIME_SLOTS_BYTES, a->runtime.thread + (__s64)from))
		return 0;
	ROLLED
	for (__u32 i = 0; i < RUNTIME_SLOTS_BYTES / 8; i++) {
		__u64 state = state_in_window(i);

		if (state) {
			env_report_slot((__s32)(i * 8) + from);
			return state;
		}
	}
	return 0;
}

static __always_inline __u64 runtime_search(void)
{
	for (__s32 from = SLOTS_FROM; from < SLOTS_TO; from += (__s32)RUNTIME_SLOTS_BYTES) {
		__u64 state = runtime_search_from(from);

		if (state)
			return state;
	}
	env_report_slot(0);
	return 0;
}

/* The state of the sampled thread; 0: it has none, as a thread that the runtime does not know. */
static __always_inline __u64 thread_state(struct runtime_state *r)
{
	__u64 state;

	if (r->walk.slot && !user_word(r->thread + r->walk.slot, &state) && is_thread_state(r, state))
		return state;
	state = state_by_key(r);
	if (r->walk.flags & RUNTIME_WALK_SEARCH)
		return runtime_search() ?: state;
	return state;
}

/* Where the first frame of the sampled thread is. 0; or -1: it cannot be read. Without a state: nowhere. */
static __always_inline int first_frame(struct runtime_state *r)
{
	__u64 state;

	if (r->walk.shape == RUNTIME_SHAPE_ARRAY)
		return ruby_first();
	r->cursor = 0;
	if (r->walk.start && r->walk.shape == RUNTIME_SHAPE_PAIRED)
		return env_is_main_thread() && perl_is_state(r->walk.start) ? perl_begin(r->walk.start) : 0;
	/* one list for the process: that of its main thread; others run native code only */
	if (r->walk.start && !(r->walk.flags & RUNTIME_WALK_BLOCK))
		return env_is_main_thread() && user_word(r->walk.start, &r->cursor) ? -1 : 0;
	r->thread = env_thread_pointer();
	state = r->thread ? thread_state(r) : 0;
	if (!state || r->walk.flags & RUNTIME_WALK_BLOCK)
		return 0;
	if (r->walk.shape == RUNTIME_SHAPE_PAIRED)
		return perl_begin(state);
	if (r->walk.flags & RUNTIME_WALK_TASKS && user_word(state + r->walk.scope, &r->task))
		r->task = 0;
	if (user_word(state + r->walk.first, &r->cursor) ||
	    (r->walk.first_of != RUNTIME_NO_OFFSET && r->cursor &&
	     user_word(r->cursor + r->walk.first_of, &r->cursor)) ||
	    (r->walk.marker_first != RUNTIME_NO_OFFSET &&
	     user_word(state + r->walk.marker_first, &r->marker)))
		return -1;
	return 0;
}

/*
 * Begins with the frames of the process's runtime: reads how they are found, and where the first one is.
 * 1: go on with runtime_steps; 0: the thread has none.
 */
UNWIND_FN int runtime_begin(void)
{
	struct unwind_area *a = env_area();
	struct runtime_state *r;
	struct segment *s;
	__u64 at;

	if (!a)
		return 0;
	r = &a->runtime;
	r->part.n_words = 0; /* those of the sample before */
	s = env_segment(ref_segment(a->state.list));
	if (!s) {
		a->state.runtime_at = 0;
		return 0;
	}
	at = a->state.runtime_at;
	ROLLED
	for (__u32 i = 0; i < sizeof r->walk / 8; i++)
		((__u64 *)&r->walk)[i] = segment_u64(s, at + i * 8);
	r->part = (struct runtime_part){.runtime = r->walk.runtime,
					.each = !!(r->walk.flags & RUNTIME_WALK_EACH)};
	r->steps = r->n_sent = r->sent_bytes = r->n_ended = r->next = 0;
	r->marker = r->task = 0;
	for (int i = 0; i < (int)RUNTIME_MEMO; i++)
		r->memo[i].code = 0;
	if (has_states(r)) {
		r->lua.n_loops = r->lua.lost = r->lua.entered = r->lua.running = r->lua.traced = r->lua.left =
			0;
		r->lua.instruction = 0;
		a->state.next_marker = 0;
		return 1;
	}
	if (r->walk.shape == RUNTIME_SHAPE_NATIVE) {
		r->v8 = (struct runtime_v8_state){0};
		a->state.next_marker = 0;
		return 0;
	}
	if (first_frame(r)) {
		r->part.reason = RUNTIME_REASON_READ_FAULT;
		return 0;
	}
	return r->cursor != 0;
}

/* Ends a segment with the frames so far. One without frames is none: its loop runs no function yet. */
static __always_inline void segment_end(struct unwind_area *a, __u64 marker)
{
	struct runtime_state *r = &a->runtime;
	__u32 n = r->part.n_segments;

	if (r->part.n_words == r->n_ended)
		return;
	r->n_ended = r->part.n_words;
	if (n >= RUNTIME_SEGMENTS_MAX) {
		runtime_segment(a, RUNTIME_SEGMENTS_MAX - 1)->end = r->part.n_words;
		return;
	}
	*runtime_segment(a, n) = (struct runtime_segment){
		.marker = marker, .native = RUNTIME_NOT_TIED, .end = r->part.n_words};
	r->part.n_segments = n + 1;
}

/*
 * Fills the window so that it holds the frame at `frame` whole. Frames of a run lie behind each other with
 * the callers below, so the window ends with this frame, as far as that is in one page.
 */
static __always_inline int frame_window(struct unwind_area *a, __u64 frame)
{
	struct unwind_state *t = &a->state;
	__u64 bytes = a->runtime.walk.frame_bytes, end = frame + bytes;
	__u64 from = end - (WINDOW_BYTES - 8), page = (end - 1) & ~(PAGE_BYTES_MIN - 1ull);

	if (frame - t->window < t->window_len && frame - t->window + bytes <= t->window_len)
		return 0;
	if (from < page)
		from = page;
	if (from > frame)
		from = frame;
	end -= from;
	BOUND(end, WINDOW_BYTES - 1);
	t->window_len = 0;
	if (env_read_user(a->window, end, from))
		return -1;
	t->window = from;
	t->window_len = end;
	return 0;
}

static __always_inline __u64 number_mix(__u64 h, __u64 word)
{
	h = (h ^ word) * 0xff51afd7ed558ccdull;
	return h ^ h >> 29;
}

/* The hash of the beginning of a NUL-terminated text; 0: it cannot be read. */
UNWIND_FN __u64 text_hash(__u64 text)
{
	struct unwind_area *a = env_area();
	__u64 h;
	int n;

	if (!a)
		return 0;
	h = a->runtime.walk.salt;
	__builtin_memset(a->frames + RUNTIME_SCRATCH, 0, RUNTIME_SCRATCH_BYTES);
	n = env_read_user_text(a->frames + RUNTIME_SCRATCH, RUNTIME_SCRATCH_BYTES, text);
	if (n <= 0)
		return 0;
	ROLLED
	for (int i = 0; i < (int)RUNTIME_SCRATCH_BYTES / 8; i++) {
		if (i * 8 >= n)
			break;
		h = number_mix(h, a->frames[RUNTIME_SCRATCH + i]);
	}
	return h;
}

/*
 * Adds what a name and a file name are to a number: of the first its hash, which names have, of the other,
 * which need not have one, its length and its last characters. What cannot be read is left out.
 */
static __always_inline __u64 texts_mix(__u64 h, const struct runtime_walk *walk, __u64 name, __u64 file)
{
	__u64 length = walk->text_length, word;

	if (!user_word(name + length + 8, &word))
		h = number_mix(h, word);
	file += length;
	if (user_word(file, &length))
		return h;
	h = number_mix(h, length);
	return user_word(file + RUNTIME_TEXT_AT - 8 + length, &word) ? h : number_mix(h, word);
}

/* Adds the end of a text, at `at`, to a number. */
UNWIND_FN __u64 text_mix(__u64 h, __u64 at, __u64 length)
{
	struct unwind_area *a = env_area();
	__u64 bytes = length < RUNTIME_TEXT_MIXED ? length : RUNTIME_TEXT_MIXED;

	if (!a)
		return h;
	__builtin_memset(a->frames + RUNTIME_SCRATCH_TEXT, 0, RUNTIME_SCRATCH_BYTES / 2);
	at += length - bytes;
	BOUND(bytes, RUNTIME_TEXT_MIXED);
	if (env_read_user(a->frames + RUNTIME_SCRATCH_TEXT, bytes, at))
		return h;
	ROLLED
	for (__u32 i = 0; i < (RUNTIME_TEXT_MIXED + 1) / 8; i++) {
		if (i * 8 >= bytes)
			break;
		h = number_mix(h, a->frames[RUNTIME_SCRATCH_TEXT + i]);
	}
	return number_mix(h, length);
}

/*
 * Adds the string object at *(`place`) to a number (RUNTIME_WALK_LINES): its hash, before its length, or its
 * text as long as nobody has needed the hash.
 */
static __always_inline __u64 string_mix(struct unwind_area *a, __u64 h, __u64 place)
{
	__u64 string, words[2], at;

	if (user_word(place, &string) || !string)
		return h;
	at = string + a->runtime.walk.text_length;
	if (env_read_user(words, sizeof words, at - 8))
		return h;
	return words[0] ? number_mix(h, words[0]) : text_mix(h, at + 8, words[1]);
}

/*
 * Adds what identifies a function to a number (RUNTIME_WALK_LINES): its name and class, and if it is one of
 * the language, its file and its lines. 0: it cannot be read; NO_FUNCTION.
 */
UNWIND_FN __u64 function_mix(__u64 h, __u64 code)
{
	struct unwind_area *a = env_area();
	__u64 place[2], scope;
	__u8 kind;
	int own;

	if (!a || env_read_user(&kind, sizeof kind, code))
		return 0;
	own = a->runtime.walk.kinds >> (kind & 7) & 1;
	if (env_read_user(place, sizeof place, code + (own ? a->runtime.walk.file : a->runtime.walk.name)) ||
	    user_word(code + a->runtime.walk.scope, &scope))
		return 0;
	if (!own && !place[0])
		return NO_FUNCTION;
	h = string_mix(a, number_mix(h, place[0]), code + a->runtime.walk.name);
	if (scope)
		h = string_mix(a, h, scope + a->runtime.walk.scope_name);
	return own ? string_mix(a, number_mix(h, place[1]), code + a->runtime.walk.file) : h;
}

/* Whether the object is a code object, as far as its type is known. */
UNWIND_FN int is_code_object(__u64 code)
{
	struct unwind_area *a = env_area();
	__u64 type;

	if (!a)
		return 0;
	return !a->runtime.walk.code_type ||
	       (!user_word(code + a->runtime.walk.type, &type) && type == a->runtime.walk.code_type);
}

/* The word of a code object at an offset, as far as it is one of those that go into its number; else 0. */
static __always_inline __u64 content_word(const struct unwind_area *a, __u64 offset)
{
	offset -= a->runtime.walk.content;
	if (offset & 7 || offset >= RUNTIME_CODE_BYTES_MAX)
		return 0;
	offset >>= 3;
	BOUND(offset, 15);
	return a->frames[RUNTIME_SCRATCH + offset];
}

/*
 * The number of a code object, of all that identifies it: an object that takes the memory of another one has
 * another number. 0: it cannot be read, or is none; NO_FUNCTION: native code without name, which the runtime
 * uses itself.
 */
static __always_inline __u64 code_number(struct unwind_area *a, __u64 code)
{
	__u64 *content = a->frames + RUNTIME_SCRATCH, bytes, h;

	__builtin_memset(content, 0, RUNTIME_SCRATCH_BYTES / 2);
	bytes = a->runtime.walk.content_bytes;
	BOUND(bytes, 127);
	if (env_read_user(content, bytes, code + a->runtime.walk.content) || !is_code_object(code))
		return 0;
	h = a->runtime.walk.salt ^ code * 0x9e3779b97f4a7c15ull;
	for (int i = 0; i < (int)(RUNTIME_CODE_BYTES_MAX / 8); i++)
		h = number_mix(h, content[i]);
	if (a->runtime.walk.flags & RUNTIME_WALK_TEXTS)
		h = texts_mix(h, &a->runtime.walk, content_word(a, a->runtime.walk.name),
			      content_word(a, a->runtime.walk.file));
	if (a->runtime.walk.flags & RUNTIME_WALK_LINES) {
		h = function_mix(h, code);
		if (!h || h == NO_FUNCTION)
			return h;
	}
	h |= 1;
	env_report_code(h, code);
	return h;
}

/* Whether a code object is a function in the runtime's language (RUNTIME_WALK_LINES). */
static __always_inline int code_has_lines(const struct runtime_walk *walk, __u64 code)
{
	__u8 kind;

	return walk->flags & RUNTIME_WALK_LINES && !env_read_user(&kind, sizeof kind, code) &&
	       walk->kinds >> (kind & 7) & 1;
}

/*
 * How far the copy of the code object's instructions that the frame in the window at `o` runs is from the one
 * in the object itself (RUNTIME_WALK_COPIES).
 */
UNWIND_FN __u64 copy_distance(__u64 code, __u64 o)
{
	struct unwind_area *a = env_area();
	__u64 copies, own, copy, index;

	if (!a)
		return 0;
	index = o + a->runtime.walk.n_instructions;
	index = window_word(a, index & ~7ull) >> (index & 4) * 8;
	index &= RUNTIME_COPIES_MAX - 1;
	if (!index || user_word(code + a->runtime.walk.instructions, &copies) ||
	    user_word(copies + 8, &own) || user_word(copies + 8 + index * 8, &copy))
		return 0;
	return copy - own;
}

/* What is remembered of a code object, once its number is: where its instructions are. */
static __always_inline void memo_instructions(struct runtime_memo *memo, const struct runtime_walk *walk,
					      __u64 o)
{
	__u64 begin;
	__u32 n;

	memo->instructions_bytes = 0;
	memo->instructions = 0;
	if (walk->flags & RUNTIME_WALK_COPIES)
		memo->instructions = copy_distance(memo->code, o);
	if (!code_has_lines(walk, memo->code) || user_word(memo->code + walk->instructions, &begin) ||
	    env_read_user(&n, sizeof n, memo->code + walk->n_instructions))
		return;
	memo->instructions = begin;
	memo->instructions_bytes = (__u64)n * walk->instruction_bytes;
}

/*
 * The number of the code object of the frame in the window at `o`, and the rest that is known of it; the last
 * ones are remembered.
 */
static __always_inline struct runtime_memo *memo_of(struct unwind_area *a, __u64 code, __u64 o)
{
	__u64 i = code >> 6 ^ code >> 9;
	struct runtime_memo *memo;

	BOUND(i, RUNTIME_MEMO - 1);
	memo = &a->runtime.memo[i];
	if (memo->code == code)
		return memo;
	memo->number = code_number(a, code);
	memo->code = code;
	memo_instructions(memo, &a->runtime.walk, o);
	return memo;
}

/*
 * The line of an instruction; 0: it is none of the function's. The innermost frame's is in a register while
 * the loop runs: the memory may have an earlier one.
 */
static __always_inline __u64 line_of(struct unwind_area *a, const struct runtime_memo *memo,
				     __u64 instruction)
{
	const struct runtime_walk *walk = &a->runtime.walk;
	__u32 line;

	if (!a->runtime.part.n_words && walk->leaf_register) {
		__u64 i = walk->leaf_register;

		BOUND(i, RULE_REGISTERS - 1);
		if (a->state.regs[i] - memo->instructions < memo->instructions_bytes)
			instruction = a->state.regs[i];
	}
	if (instruction - memo->instructions >= memo->instructions_bytes ||
	    env_read_user(&line, sizeof line, instruction + walk->line))
		return 0;
	return line;
}

/* Adds the frame in the window at `o`. 0; or -1: its code object cannot be read. */
UNWIND_FN int frame_add(__u64 o)
{
	struct unwind_area *a = env_area();
	__u64 code, number, at, instruction;
	const struct runtime_memo *memo;
	struct runtime_state *r;

	if (!a)
		return -1;
	r = &a->runtime;
	code = window_word(a, o + r->walk.code) & ~(__u64)r->walk.code_tag;
	memo = memo_of(a, code, o);
	number = memo->number;
	r->in_loop = 0;
	if (!number || number == NO_FUNCTION)
		return number ? 0 : -1;
	r->in_loop = !(r->walk.flags & RUNTIME_WALK_LINES) || memo->instructions_bytes;
	instruction = window_word(a, o + r->walk.instruction);
	if (r->walk.flags & RUNTIME_WALK_LINES)
		instruction = line_of(a, memo, instruction);
	else if (r->walk.flags & RUNTIME_WALK_INDEX)
		instruction = (__u64)(__s64)(__s32)(instruction >> (r->walk.instruction & 4) * 8);
	else
		instruction -= code + memo->instructions;
	at = RUNTIME_KEPT_WORDS + r->part.n_words;
	if (at > RECORD_WORDS - 2)
		return -1;
	a->frames[at] = frame_runtime_head(r->walk.runtime, 1, number);
	a->frames[at + 1] = instruction;
	r->part.n_words += 2;
	return 0;
}

/* Whether the walk is at its end, or must end; with the reason. */
static __always_inline int runtime_ends(struct runtime_state *r)
{
	if (!r->cursor) {
		r->part.whole = 1;
		return 1;
	}
	if (r->part.n_words >= 2 * RUNTIME_FRAMES_MAX || r->steps >= RUNTIME_STEPS_MAX) {
		r->part.reason = RUNTIME_REASON_DEPTH_LIMIT;
		return 1;
	}
	r->steps++;
	return 0;
}

/* The frame that was added is the last one of its segment. */
static __always_inline void segment_of_frame(struct unwind_area *a)
{
	struct runtime_state *r = &a->runtime;

	segment_end(a, r->marker);
	if (r->marker && user_word(r->marker + r->walk.marker_next, &r->marker))
		r->marker = 0;
}

#include "bpf/ruby.h"

/* Walks up to RUNTIME_STEPS_A_CALL frames. 1: there may be more; 0: the walk has ended. */
UNWIND_FN int runtime_steps(void)
{
	struct unwind_area *a = env_area();
	struct runtime_state *r;

	if (!a)
		return 0;
	r = &a->runtime;
	if (r->walk.shape == RUNTIME_SHAPE_ARRAY)
		return ruby_steps(a);
	if (has_states(r))
		return 0; /* lua_walk, behind the native walk */
	if (r->walk.shape == RUNTIME_SHAPE_PAIRED)
		return perl_steps();
	ROLLED
	for (int k = 0; k < RUNTIME_STEPS_A_CALL; k++) {
		__u64 frame = r->cursor, o, at;
		__u32 kind;

		if (runtime_ends(r))
			return 0;
		if (frame_window(a, frame)) {
			r->part.reason = RUNTIME_REASON_READ_FAULT;
			return 0;
		}
		o = frame - a->state.window;
		r->cursor = window_word(a, o + r->walk.next);
		at = o + r->walk.kind;
		BOUND(at, WINDOW_BYTES - 1);
		kind = a->window[at];
		if (r->walk.hidden_kind && kind >= r->walk.hidden_kind) {
			segment_end(a, frame);
			continue;
		}
		if (r->walk.flags & RUNTIME_WALK_SKIP && !window_word(a, o + r->walk.code))
			continue;
		if (frame_add(o)) {
			r->part.reason = RUNTIME_REASON_INCONSISTENT;
			return 0;
		}
		if (r->walk.flags & RUNTIME_WALK_EACH ||
		    (r->walk.flags & RUNTIME_WALK_ENTRY && kind & r->walk.entry_mask && r->in_loop))
			segment_of_frame(a);
	}
	return 1;
}

/* Ends the walk of the list: the native walk ties its segments from the first one on. */
UNWIND_FN int runtime_walked(void)
{
	struct unwind_area *a = env_area();

	if (!a)
		return 0;
	segment_end(a, 0);
	if (a->runtime.part.n_segments)
		a->state.next_marker = runtime_segment(a, 0)->marker ?: NO_MARKER;
	return 0;
}

/* The number of the native frame that the walk is at, from the innermost one on. */
static __always_inline __u32 native_number(const struct unwind_area *a)
{
	const struct unwind_state *t = &a->state;
	__u32 n = t->ring ? t->ring + t->laps * RING_FRAMES + (t->n - t->ring) : t->n;

	return n - a->record.n_kernel;
}

/*
 * The native frame that the walk is at, [state.tie_sp, state.tie_cfa), reaches beyond the marker of the next
 * segment: if the marker is in it, it is the frame of the segment's loop. Markers below it are on another
 * stack, or no markers.
 */
UNWIND_FN int runtime_tie(void)
{
	struct unwind_area *a = env_area();
	struct unwind_state *t;
	struct runtime_state *r;
	__u32 native;

	if (!a)
		return 0;
	t = &a->state;
	r = &a->runtime;
	native = native_number(a);
	if (r->walk.shape == RUNTIME_SHAPE_STATES)
		return lua_loop(native);
	if (r->walk.shape == RUNTIME_SHAPE_NATIVE)
		return v8_frame(native);
	ROLLED
	for (int k = 0; k < RUNTIME_TIES_A_CALL; k++) {
		struct runtime_segment *segment = runtime_segment(a, r->next);

		if (r->next >= r->part.n_segments || !segment->marker) {
			t->next_marker = NO_MARKER;
			return 0;
		}
		t->next_marker = segment->marker;
		if (t->next_marker >= t->tie_cfa)
			return 0;
		if (t->next_marker >= t->tie_sp)
			segment->native = native;
		r->next++;
	}
	return 0;
}

/*
 * Adds the name of the task behind the part, which is behind the native frames. Returns its words; 0: there
 * is none, or it cannot be read.
 */
UNWIND_FN int runtime_attach_task(void)
{
	struct unwind_area *a = env_area();
	struct sample_task *task;
	__u64 n, object;

	if (!a || !a->runtime.task)
		return 0;
	n = a->state.n + a->state.runtime_words;
	BOUND(n, RECORD_FRAMES - 1);
	task = (struct sample_task *)(a->frames + n);
	__builtin_memset(task, 0, sizeof *task);
	if (user_word(a->runtime.task + a->runtime.walk.scope_name, &object) ||
	    user_word(object + a->runtime.walk.type, &task->type))
		return 0;
	task->bytes = SAMPLE_TASK_BYTES;
	if (env_read_user(task->object, SAMPLE_TASK_BYTES, object)) {
		task->bytes = SAMPLE_TASK_BYTES_MIN;
		if (env_read_user(task->object, SAMPLE_TASK_BYTES_MIN, object))
			return 0;
	}
	task->bias = a->runtime.walk.bias;
	task->layout = a->runtime.walk.layout;
	return sizeof *task / 8;
}

/* Moves the part behind the native frames. Returns its words, which are 0 if there are no frames. */
UNWIND_FN int runtime_attach(void)
{
	struct unwind_area *a = env_area();
	struct runtime_state *r;
	__u64 n, bytes;

	if (!a)
		return 0;
	r = &a->runtime;
	if (has_states(r) && !a->state.next_marker)
		lua_walk();
	if (r->walk.shape == RUNTIME_SHAPE_NATIVE)
		v8_finish();
	if (!r->part.n_words)
		return 0;
	n = a->state.n;
	BOUND(n, RECORD_FRAMES - 1);
	*(struct runtime_part *)(a->frames + n) = r->part;
	n++;
	bytes = r->part.n_segments * sizeof(struct runtime_segment);
	BOUND(bytes, 4095);
	if (env_copy(a->frames + n, bytes, a->frames + RUNTIME_KEPT))
		return 0;
	n += r->part.n_segments * RUNTIME_SEGMENT_WORDS;
	BOUND(n, RECORD_FRAMES - 1);
	bytes = r->part.n_words * 8;
	BOUND(bytes, 0x3fff);
	if (bytes > RUNTIME_FRAMES_MAX * 16 || env_copy(a->frames + n, bytes, a->frames + RUNTIME_KEPT_WORDS))
		return 0;
	return 1 + r->part.n_segments * (int)RUNTIME_SEGMENT_WORDS + r->part.n_words;
}

#endif
