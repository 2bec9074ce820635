/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Walks the frames of Lua (RUNTIME_SHAPE_STATES). Each coroutine has a list of calls (CallInfo), of Lua's
 * functions and of C's, the innermost one first. No variable says which coroutine a thread runs, but the
 * loop's frame on the native stack leads to its state: struct runtime_site. So the native walk comes first,
 * and notes the loops that it passes (lua_loop).
 *
 *	loop's frame ─► state ─► call ─► call ─► … ─► 0
 *	                          └─► closure ─► code object ─► lines, file
 *
 * A loop runs functions that call each other. The first of them is marked: it ends a segment, and what is
 * behind it belongs to the coroutine's next loop. But the loop of a coroutine that was suspended is a new
 * one, and runs the rest of the list. At the leaf there may be a loop that has just returned from its last
 * function, or a function whose loop has not begun. User space puts these together.
 *
 * Of struct runtime_walk, `first` is an offset in a state, `next`, `code` (of the pointer to a function's
 * place on the coroutine's stack), `instruction` and `kind` in a call, `bytes` in a text; others are in a
 * code object: `instructions`, `n_instructions`, `first_line`, `file`, `lines`. In Lua 5.1, calls are an
 * array (`next` is 0), whose first one is *(`thread`) of the state, and the innermost call's instruction is
 * *(`line`) of it. `scope`, in a closure, is its code object, and `scope_name` whether it is C's. Without an
 * `entry_mask`, a function that was not called by its caller's instruction is the first one of a loop.
 */
#ifndef PROFLET_BPF_LUA_H
#define PROFLET_BPF_LUA_H

#include "bpf/runtime.h"

#define LUA_STEPS_A_CALL 16
#define LUA_STATE_TYPE 8u /* u8 in any object; of a state it is LUA_STATE */
#define LUA_STATE 8u
#define LUA_STATE_TOP 16u /* pointer: the end of what is used of its stack */
#define LUA_STACK_BYTES_MAX (1ull << 28)
#define LUA_VALUE_BYTES 16u
#define LUA_VALUE_KIND 0x3fu
#define LUA_FUNCTION 6u	      /* kind of a value: a function of Lua */
#define LUA_LINES_A_STEP 128u /* instructions behind an entry of the second table of lines, at most */
#define LUA_PLACES_TRIED 12
#define LUA_CALL_INSTRUCTION_BYTES 5u
#define BYTES(x) ((x) * 0x0101010101010101ull)

/* What the native walk has noted of a loop, behind the frames that are kept. */
struct lua_loop {
	__u64 state; /* of its coroutine; 0: unknown */
	__u64 cfa;
	__u32 native;
	__u32 kind; /* enum runtime_segment_kind */
};

#define LUA_LOOPS (RUNTIME_KEPT_WORDS + 2 * RUNTIME_FRAMES_MAX)

_Static_assert(LUA_LOOPS + RUNTIME_SEGMENTS_MAX * sizeof(struct lua_loop) / 8 <= RUNTIME_SCRATCH,
	       "LUA_LOOPS");

static __always_inline struct lua_loop *lua_loop_at(struct unwind_area *a, __u64 i)
{
	BOUND(i, RUNTIME_SEGMENTS_MAX - 1);
	return (struct lua_loop *)(a->frames + LUA_LOOPS) + i;
}

/* Finds the state of the loop whose frame the native walk is at. */
static __always_inline void lua_find_state(struct unwind_area *a, struct lua_loop *loop)
{
	const struct runtime_walk *walk = &a->runtime.walk;
	__u64 ra, found = 0; /* a struct runtime_site */

	loop->state = 0;
	loop->kind = RUNTIME_SEGMENT_CALLED;
	if (stack_word(a, a->state.tie_cfa - 8, &ra))
		return;
	ra -= walk->loop_start;
	ROLLED
	for (int i = 0; i < (int)RUNTIME_SITES_MAX; i++) {
		if ((__u64)(__s64)walk->sites[i].distance == ra)
			found = *(const __u64 *)&walk->sites[i];
	}
	if (!(__s32)found || stack_word(a, a->state.tie_cfa + (__s64)(__s16)(found >> 32), &loop->state))
		loop->state = 0;
	else if (found >> 48)
		loop->kind = RUNTIME_SEGMENT_RESUMED;
}

/*
 * Whether the innermost native frame, so many bytes behind the loop's start, is about to enter the loop: at
 * the call, or where the loop has not saved its caller's registers yet.
 */
UNWIND_FN int lua_is_entered(__u64 at)
{
	struct unwind_area *a = env_area();
	const struct runtime_walk *walk;
	int is;

	if (!a)
		return 0;
	walk = &a->runtime.walk;
	is = at < walk->loop_body;
	ROLLED
	for (int i = 0; i < (int)RUNTIME_SITES_MAX; i++) {
		__u64 left = (__u64)(__s64)walk->sites[i].distance - at - 1;

		/*
		 * left < LUA_CALL_INSTRUCTION_BYTES, without a branch, which the verifier would follow twice
		 */
		is |= ((left - LUA_CALL_INSTRUCTION_BYTES) & ~left) >> 63;
	}
	return is;
}

/*
 * The native walk is at a frame [state.tie_sp, state.tie_cfa), its frame `native`, which is at state.tie_ip:
 * notes it if it is a loop that runs already. Loops beyond what a record has segments for are none.
 */
UNWIND_FN int lua_loop(__u32 native)
{
	struct unwind_area *a = env_area();
	struct runtime_state *r;
	struct unwind_state *t;
	struct lua_loop *loop;
	__u64 at, reg;

	if (!a)
		return 0;
	t = &a->state;
	r = &a->runtime;
	at = t->tie_ip - r->walk.loop_start;
	if (t->innermost && !r->lua.n_loops)
		r->lua.entered = lua_is_entered(at);
	if (at >= r->walk.loop_bytes || (t->innermost && at < r->walk.loop_body))
		return 0;
	if (r->lua.n_loops >= RUNTIME_SEGMENTS_MAX) {
		r->lua.lost = 1;
		return 0;
	}
	reg = r->walk.leaf_register;
	BOUND(reg, RULE_REGISTERS - 1);
	if (!r->lua.n_loops && reg && t->innermost && t->have_regs)
		r->lua.instruction = t->regs[reg];
	loop = lua_loop_at(a, r->lua.n_loops++);
	loop->native = native;
	loop->cfa = t->tie_cfa;
	lua_find_state(a, loop);
	return 0;
}

/* Ends a segment of the coroutine with the frames so far: that of its next loop, if it has one. */
UNWIND_FN int lua_segment(void)
{
	struct unwind_area *a = env_area();
	__u32 n, native = RUNTIME_NOT_TIED, kind = RUNTIME_SEGMENT_CALLED;
	struct runtime_state *r;
	struct lua_loop *loop;

	if (!a)
		return 0;
	r = &a->runtime;
	n = r->part.n_segments;
	loop = lua_loop_at(a, r->lua.loop);
	r->n_ended = r->part.n_words;
	if (r->lua.loop < r->lua.n_loops && loop->state == r->lua.state) {
		native = loop->native;
		kind = loop->kind;
		r->lua.loop++;
	}
	if (n >= RUNTIME_SEGMENTS_MAX) {
		runtime_segment(a, RUNTIME_SEGMENTS_MAX - 1)->end = r->part.n_words;
		return 0;
	}
	*runtime_segment(a, n) = (struct runtime_segment){
		.marker = r->lua.state, .native = native, .end = r->part.n_words, .kind = kind};
	r->part.n_segments = n + 1;
	return 0;
}

/* Makes the coroutine the present one. 0; -1: there is none. */
static __always_inline int lua_enter(struct runtime_state *r, __u64 state)
{
	__u64 stack, end, call, top;
	__u8 type;

	r->lua.state = state;
	if (!state || state & 7 || env_read_user(&type, sizeof type, state + LUA_STATE_TYPE) ||
	    type != LUA_STATE || env_read_user(&stack, sizeof stack, state + r->walk.stack) ||
	    env_read_user(&end, sizeof end, state + r->walk.stack_end) ||
	    env_read_user(&call, sizeof call, state + r->walk.first) ||
	    env_read_user(&top, sizeof top, state + LUA_STATE_TOP))
		return -1;
	if (!call || call & 7 || stack & 7 || end - stack - 1 >= LUA_STACK_BYTES_MAX)
		return -1;
	/* while the stack gets another place, calls have the new one already */
	r->lua.stack = top - stack <= end - stack ? stack : 0;
	r->lua.stack_end = top - stack <= end - stack ? end : ~0ull;
	r->cursor = call;
	r->lua.outermost = 0;
	r->lua.innermost = 1;
	return r->walk.next ? 0 : user_word(state + r->walk.thread, &r->lua.outermost);
}

/* The list is at its end: goes on with the next loop, which may be another coroutine's. 0; 1: no more. */
UNWIND_FN int lua_next_loop(void)
{
	struct unwind_area *a = env_area();
	const struct lua_loop *loop;
	struct runtime_state *r;

	if (!a)
		return 1;
	r = &a->runtime;
	loop = lua_loop_at(a, r->lua.loop);
	if (r->lua.loop >= r->lua.n_loops) {
		r->part.whole = !r->lua.lost;
		r->part.reason = r->lua.lost ? RUNTIME_REASON_NO_THREAD : 0;
		return 1;
	}
	if (loop->state && loop->state == r->lua.state) {
		lua_segment();
		return 0;
	}
	if (lua_enter(r, loop->state)) {
		r->lua.lost = 1;
		lua_segment();
	}
	return 0;
}

/* The sum of the LUA_LINES_A_STEP signed bytes that were read. */
UNWIND_FN __s32 lua_steps_sum(void)
{
	struct unwind_area *a = env_area();
	__u64 sum = 0, word;

	if (!a)
		return 0;
	ROLLED
	for (int i = 0; i < (int)LUA_LINES_A_STEP / 8; i++) { /* as unsigned bytes that are 128 larger */
		word = a->frames[RUNTIME_SCRATCH + i] ^ BYTES(0x80ull);
		sum += (word & 0x00ff00ff00ff00ffull) + (word >> 8 & 0x00ff00ff00ff00ffull);
	}
	return (__s32)(sum * 0x0001000100010001ull >> 48) - 128 * (__s32)LUA_LINES_A_STEP;
}

/*
 * Looks for the last place before instruction `index` whose line is known, in the table at `table`, which has
 * one at least for each LUA_LINES_A_STEP instructions. Returns its entry (u32 index, u32 line); 0: none.
 */
static __always_inline __u64 lua_place(__u64 table, __u32 n, __u32 index)
{
	__u32 i = index / LUA_LINES_A_STEP;
	__u64 found = 0, entry;

	i -= i != 0;
	ROLLED
	for (int k = 0; k < LUA_PLACES_TRIED; k++, i++) {
		if (i >= n || env_read_user(&entry, sizeof entry, table + i * 8ull) || (__u32)entry > index)
			break;
		found = entry;
	}
	return found;
}

/*
 * The line of an instruction by the first line of its function, the differences to the line before, one byte
 * each, and a table of places where lines are known. 0: unknown.
 */
UNWIND_FN __u32 lua_line_by_steps(__u64 code, __u32 index)
{
	struct unwind_area *a = env_area();
	__u64 tables[2], place, bytes = index + 1ull;
	__u32 n, line;

	if (!a || env_read_user(tables, sizeof tables, code + a->runtime.walk.lines) ||
	    env_read_user(&n, sizeof n, code + a->runtime.walk.steps) ||
	    env_read_user(&line, sizeof line, code + a->runtime.walk.first_line) || !tables[0])
		return 0;
	place = lua_place(tables[1], n, index);
	if (place) {
		bytes = index - (__u32)place;
		line = place >> 32;
	}
	if (bytes > LUA_LINES_A_STEP)
		return 0;
	__builtin_memset(a->frames + RUNTIME_SCRATCH, 0, LUA_LINES_A_STEP);
	BOUND(bytes, 255);
	if (env_read_user(a->frames + RUNTIME_SCRATCH, bytes, tables[0] + index + 1 - bytes))
		return 0;
	return line + lua_steps_sum();
}

/* The line of the instruction before the one at `next`; 0: unknown. */
static __always_inline __u32 lua_line(const struct runtime_walk *walk, const struct runtime_memo *memo,
				      __u64 next)
{
	__u64 index = next - memo->instructions - walk->instruction_bytes, lines;
	__u32 line;

	if (index >= memo->instructions_bytes)
		return 0;
	index /= 4;
	if (walk->steps)
		return lua_line_by_steps(memo->code, index);
	if (user_word(memo->code + walk->lines, &lines) || !lines ||
	    env_read_user(&line, sizeof line, lines + index * 4))
		return 0;
	return line;
}

/* The number of a code object, of all that identifies it; 0: it cannot be read. */
static __always_inline __u64 lua_number(struct unwind_area *a, __u64 code)
{
	const struct runtime_walk *walk = &a->runtime.walk;
	__u64 *content = a->frames + RUNTIME_SCRATCH, bytes = walk->content_bytes, h, source, text;
	__u32 first_line;

	__builtin_memset(content, 0, RUNTIME_SCRATCH_BYTES / 2);
	BOUND(bytes, 127);
	if (env_read_user(content, bytes, code + walk->content) ||
	    env_read_user(&first_line, sizeof first_line, code + walk->first_line) ||
	    user_word(code + walk->file, &source))
		return 0;
	h = number_mix(walk->salt ^ code * 0x9e3779b97f4a7c15ull, first_line);
	for (int i = 0; i < (int)(RUNTIME_CODE_BYTES_MAX / 8); i++)
		h = number_mix(h, content[i]);
	text = source ? text_hash(source + walk->bytes) : 1; /* code without debug information has none */
	return text ? number_mix(h, text) | 1 : 0;
}

/* Which of the remembered code objects it is, or takes the place of. */
static __always_inline __u64 lua_memo_index(__u64 code)
{
	return (code >> 4 ^ code >> 9) & (RUNTIME_MEMO - 1);
}

/* Remembers a code object. */
UNWIND_FN int lua_remember(__u64 code)
{
	struct unwind_area *a = env_area();
	__u64 i = lua_memo_index(code), number;
	const struct runtime_walk *walk;
	struct runtime_memo *memo;
	__u32 n;

	if (!a)
		return 0;
	walk = &a->runtime.walk;
	BOUND(i, RUNTIME_MEMO - 1);
	memo = &a->runtime.memo[i];
	number = lua_number(a, code);
	memo->code = code;
	memo->number = number;
	memo->instructions_bytes = 0;
	memo->instructions = code + walk->instructions;
	if (number &&
	    (walk->shape == RUNTIME_SHAPE_VALUES ||
	     !user_word(code + walk->instructions, &memo->instructions)) &&
	    !env_read_user(&n, sizeof n, code + walk->n_instructions))
		memo->instructions_bytes = (__u64)n * walk->instruction_bytes;
	a->runtime.lua.report = number;
	a->runtime.lua.report_code = code;
	return 0;
}

/* As memo_of. */
static __always_inline struct runtime_memo *lua_memo(struct unwind_area *a, __u64 code)
{
	__u64 i = lua_memo_index(code);

	BOUND(i, RUNTIME_MEMO - 1);
	if (a->runtime.memo[i].code != code)
		lua_remember(code);
	return &a->runtime.memo[i];
}

/*
 * Adds the frame of a call. 0; -1: its code object cannot be read. The innermost frame's instruction may be
 * in a register of the loop, and the memory have an earlier one.
 */
static __always_inline int lua_frame_add(struct unwind_area *a, const struct runtime_memo *memo, __u64 next)
{
	struct runtime_state *r = &a->runtime;
	__u64 at = RUNTIME_KEPT_WORDS + r->part.n_words;

	if (!memo->number || at > LUA_LOOPS - 2)
		return -1;
	if (!r->part.n_words && r->lua.instruction - memo->instructions - 4 < memo->instructions_bytes)
		next = r->lua.instruction;
	a->frames[at] = frame_runtime_head(r->walk.runtime, 1, memo->number);
	a->frames[at + 1] = lua_line(&r->walk, memo, next);
	r->part.n_words += 2;
	return 0;
}

/*
 * Finds the function at that place of the coroutine's stack, if it is one of Lua's: lua.function. 1: so; 0:
 * it is not; -1: it cannot be read.
 */
UNWIND_FN int lua_function(__u64 place)
{
	struct unwind_area *a = env_area();
	struct runtime_state *r;
	__u64 value[2];
	__u8 native = 0;

	if (!a)
		return -1;
	r = &a->runtime;
	if (place & 7 || place < r->lua.stack || place >= r->lua.stack_end ||
	    env_read_user(value, sizeof value, place))
		return -1;
	r->lua.function = value[0];
	if (((__u32)value[1] & LUA_VALUE_KIND) != LUA_FUNCTION)
		return 0;
	if (r->walk.scope_name && env_read_user(&native, sizeof native, value[0] + r->walk.scope_name))
		return -1;
	return !native;
}

/*
 * Whether the instruction at which the call `caller` is, of a function of Lua, calls `function`. 1: so; 0:
 * not so; -1: the caller is none of Lua's.
 */
UNWIND_FN int lua_calls(__u64 caller, __u64 function)
{
	struct unwind_area *a = env_area();
	__u64 place, base, next, called;
	const struct runtime_state *r;
	__u32 instruction, reg;

	if (!a)
		return -1;
	r = &a->runtime;
	if (user_word(caller + r->walk.code, &place))
		return -1;
	if (lua_function(place) <= 0)
		return -1;
	base = place + LUA_VALUE_BYTES;
	if ((r->walk.base != RUNTIME_NO_OFFSET && user_word(caller + r->walk.base, &base)) ||
	    user_word(caller + r->walk.instruction, &next) ||
	    env_read_user(&instruction, sizeof instruction, next - sizeof instruction) ||
	    (instruction & ((1u << (r->walk.call_shift & 15)) - 1)) != r->walk.call)
		return 0;
	reg = instruction >> (r->walk.call_shift & 15) & 0xff;
	return !user_word(base + reg * (__u64)LUA_VALUE_BYTES, &called) && called == function;
}

/*
 * Whether the call is the first one of its loop: by its mark, which the innermost call of all may have from
 * an earlier call in its place. -1: that is not filled in yet, or its result is where its function was.
 */
static __always_inline int lua_is_first(const struct runtime_state *r, __u64 caller, __u64 function,
					const struct runtime_memo *memo, __u64 next, int marked, int first)
{
	int called;

	if (!first && r->walk.entry_mask)
		return marked;
	if (first && next - memo->instructions > memo->instructions_bytes)
		return -1;
	called = lua_calls(caller, function);
	if (called > 0)
		return 0;
	/* its loop has not begun: that would have changed the memory, or is about to be entered */
	if (first && (r->walk.leaf_register ? r->lua.entered : next == memo->instructions))
		return -1;
	return marked || !r->walk.entry_mask ? 1 : -1;
}

/* Goes on with the next call of the list. 0, or enum runtime_reason. */
static __always_inline int lua_call(struct unwind_area *a)
{
	struct runtime_state *r = &a->runtime;
	__u64 o, function, code, caller, next;
	const struct runtime_memo *memo;
	int is_lua, fresh, first;

	if (frame_window(a, r->cursor))
		return RUNTIME_REASON_READ_FAULT;
	o = r->cursor - a->state.window;
	caller = window_word(a, o + r->walk.next);
	if (!r->walk.next)
		caller = r->cursor == r->lua.outermost ? 0 : r->cursor - r->walk.frame_bytes;
	r->cursor = caller;
	next = window_word(a, o + r->walk.instruction);
	if (r->lua.innermost && r->walk.line && user_word(r->lua.state + r->walk.line, &next))
		next = 0;
	r->lua.innermost = 0;
	fresh = (window_word(a, (o + r->walk.kind) & ~7ull) >> (r->walk.kind & 7) * 8 & r->walk.entry_mask) ==
		r->walk.entry_value;
	first = r->lua.first;
	r->lua.first = 0;
	if (!caller) { /* the outermost call is no function */
		if (r->part.n_words > r->n_ended)
			lua_segment();
		return 0;
	}
	is_lua = lua_function(window_word(a, o + r->walk.code));
	if (is_lua < 0 && !first)
		return RUNTIME_REASON_INCONSISTENT;
	if (is_lua <= 0)
		return 0;
	function = r->lua.function;
	if (user_word(function + r->walk.scope, &code))
		return first ? 0 : RUNTIME_REASON_READ_FAULT;
	memo = lua_memo(a, code);
	fresh = lua_is_first(r, caller, function, memo, next, fresh, first);
	if (fresh < 0)
		return 0;
	if (lua_frame_add(a, memo, next))
		return RUNTIME_REASON_INCONSISTENT;
	if (fresh)
		lua_segment();
	return 0;
}

/* One step of the walk. 1: there may be more; 0: it has ended. */
UNWIND_FN int lua_step(void)
{
	struct unwind_area *a = env_area();
	struct runtime_state *r;
	int reason = 0;

	if (!a)
		return 0;
	r = &a->runtime;
	if (!r->cursor && lua_next_loop())
		return 0;
	if (r->part.n_words >= 2 * RUNTIME_FRAMES_MAX || r->steps++ >= RUNTIME_STEPS_MAX)
		reason = RUNTIME_REASON_DEPTH_LIMIT;
	else if (r->cursor)
		reason = lua_call(a);
	r->part.reason = reason ?: r->part.reason;
	return !reason;
}

/*
 * The same, LUA_STEPS_A_CALL times. Reports are made here, as Linux 5.10 adds up the stacks of all callers.
 */
UNWIND_FN int lua_steps(void)
{
	struct unwind_area *a = env_area();

	if (!a)
		return 0;
	ROLLED
	for (int k = 0; k < LUA_STEPS_A_CALL; k++) {
		int more;

		a->runtime.lua.report = 0;
		more = a->runtime.walk.shape == RUNTIME_SHAPE_VALUES ? luajit_step() : lua_step();
		if (a->runtime.lua.report)
			env_report_code(a->runtime.lua.report, a->runtime.lua.report_code);
		if (!more)
			return 0;
	}
	return 1;
}

/* Walks the lists of the coroutines whose loops the native walk has noted. */
UNWIND_FN int lua_walk(void)
{
	struct unwind_area *a = env_area();

	if (!a)
		return 0;
	a->state.window_len = 0;
	a->runtime.lua.state = a->runtime.lua.loop = a->runtime.cursor = 0;
	a->runtime.lua.first = 1;
	ROLLED
	for (__u32 i = 0; i < RUNTIME_STEPS_MAX / LUA_STEPS_A_CALL + 1; i++)
		if (!lua_steps())
			break;
	if (a->runtime.part.n_words > a->runtime.n_ended)
		lua_segment();
	return 0;
}

#endif
