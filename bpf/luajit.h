/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Walks the frames of LuaJIT with 64-bit pointers to objects (RUNTIME_SHAPE_VALUES). A coroutine's frames are
 * on its stack of values, two words each, below the first value of the function that they belong to:
 *
 *	… │ function │ way │ values of the function … │ function │ way │ values …      ─► the innermost frame
 *
 * The way to the caller's frame is the bytecode at which it goes on, whose call says how far below its own
 * values the caller has put these (LuaJIT calls them slots); or a distance, with a type in the low bits. The
 * interpreter and the helpers that it calls are one block of code, whose frame on the native stack has the
 * coroutine's state. Each such frame ends a run of Lua's frames: what native code has called is marked.
 *
 * In the interpreter the innermost frame is in a register, in memory it is of an earlier time. What is
 * compiled (a trace) runs in the frame of the interpreter, below which it makes room for itself: which
 * function of Lua it is in by now, memory does not say, but the one in which it began.
 *
 * Of struct runtime_walk, `first` (base), `stack`, `stack_end`, `thread` (the global state) and
 * `marker_first` (the frame on the native stack) are in a state, `first_of` (jit_base) in the global state.
 * `frame_bytes`: from the stack pointer of the block's frame to its CFA. sites[0].offset: where that frame
 * has the state, sites[1].offset: the bytecode, both from the CFA; sites[2].distance: where C code returns to
 * that has no frame of Lua. `scope`, in a function, is its bytecode. Others are in a code object, behind
 * which its bytecode is: `instructions`.
 */
#ifndef PROFLET_BPF_LUAJIT_H
#define PROFLET_BPF_LUAJIT_H

#include "bpf/lua.h"

#define LUAJIT_TYPE 9u /* u8 in any object */
#define LUAJIT_STATE 6u
#define LUAJIT_FUNCTION 8u
#define LUAJIT_POINTER_BITS 47
#define LUAJIT_STACK_EXTRA 512u /* bytes behind stack_end that may be used */
#define LUAJIT_FRAME_BYTES_MAX (1ull << 23)
#define LUAJIT_CFRAME_FLAGS 3ull
#define LUAJIT_JUMP_MAX (1ull << 30) /* bytes between a trace and the block, either way */
#define LUAJIT_ROOM 128u /* words, at most, between a stack pointer and that of the block's frame */
/* Of the way to the caller's frame. */
#define LUAJIT_WAY_TYPE 7ull
#define LUAJIT_WAY_RETURN 3ull /* without these bits: it is a bytecode */
#define LUAJIT_WAY_C 1u
#define LUAJIT_WAY_CONTINUATION 2u
#define LUAJIT_WAY_VARARG 3u
#define LUAJIT_WAY_PROTECTED_C 5u
#define LUAJIT_CALLBACK 1u /* a continuation: C code has called it by way of a pointer */

/* --- code that was compiled */

static __always_inline int luajit_is_trace(const struct unwind_area *a)
{
	return a->state.runtime_at && a->runtime.walk.shape == RUNTIME_SHAPE_VALUES && !a->state.bias &&
	       a->state.tag >> FRAME_VA_BITS != a->runtime.walk.layout;
}

/* What the block's frame whose stack pointer is `sp` has in the place of the state; 0: it cannot be read. */
static __always_inline __u64 luajit_state_word(struct unwind_area *a, __u64 sp)
{
	const struct runtime_walk *walk = &a->runtime.walk;
	__u64 state;

	return stack_word(a, sp + walk->frame_bytes + (__s64)walk->sites[0].offset, &state) ? 0 : state;
}

/*
 * The state of the coroutine that the frame of the block of code whose stack pointer is `sp` runs; 0: it is
 * not such a frame. `innermost`: a state has the innermost one of its frames, and it must be that.
 */
static __always_inline __u64 luajit_state_at(struct unwind_area *a, __u64 sp, int innermost)
{
	const struct runtime_walk *walk = &a->runtime.walk;
	__u64 state = luajit_state_word(a, sp), frame;
	__u8 type;

	if (!state || state & 7 || state >> LUAJIT_POINTER_BITS ||
	    user_word(state + walk->marker_first, &frame) ||
	    env_read_user(&type, sizeof type, state + LUAJIT_TYPE))
		return 0;
	return type == LUAJIT_STATE && (!innermost || (frame & ~LUAJIT_CFRAME_FLAGS) == sp) ? state : 0;
}

/* Whether the block's frame is at that distance from the stack pointer. */
UNWIND_FN int luajit_is_frame(__u32 distance)
{
	struct unwind_area *a = env_area();

	return a && luajit_state_at(a, a->state.sp + distance, 1) != 0;
}

/*
 * How far above the stack pointer that of the block's frame is: functions in the block that it calls itself,
 * and traces, have no rows of their own. 0: it is not found.
 */
UNWIND_FN __u32 luajit_distance(void)
{
	ROLLED
	for (__u32 i = 1; i <= LUAJIT_ROOM; i++) {
		if (luajit_is_frame(i * 8))
			return i * 8;
	}
	return 0;
}

/* The frame of Lua in which the trace has begun that the coroutine runs; 0: it runs none. */
UNWIND_FN __u64 luajit_traced(__u64 state)
{
	struct unwind_area *a = env_area();
	const struct runtime_walk *walk;
	__u64 global, base;

	if (!a)
		return 0;
	walk = &a->runtime.walk;
	if (walk->first_of == RUNTIME_NO_OFFSET || user_word(state + walk->thread, &global) ||
	    user_word(global + walk->first_of, &base))
		return 0;
	return base;
}

/*
 * Steps from a trace to the frame of the block of code that has jumped to it. 1; 0: it is not found, or the
 * code is another one that was made at run time.
 */
static __always_inline int luajit_step_trace(void)
{
	struct unwind_area *a = env_area();
	struct unwind_state *t;
	__u32 distance;

	if (!a)
		return 0;
	t = &a->state;
	if (t->ip - a->runtime.walk.loop_start + LUAJIT_JUMP_MAX >= 2 * LUAJIT_JUMP_MAX)
		return 0;
	distance = luajit_distance();
	if (!distance || !luajit_traced(luajit_state_word(a, t->sp + distance)))
		return 0;
	if (!a->runtime.lua.n_loops)
		a->runtime.lua.traced = 1;
	t->sp += distance;
	t->ip = a->runtime.walk.loop_start;
	t->innermost = 0;
	t->interrupted = 0;
	t->fallback = 0;
	return 1;
}

/* --- the native walk */

/*
 * Whether the block has a frame but runs no function in it yet, or any more. The register for the bytecode
 * has the way to the caller's frame then, or that frame itself; what it keeps is the state, at the beginning.
 */
static __always_inline int luajit_is_empty(struct unwind_area *a, __u64 state)
{
	const struct runtime_walk *walk = &a->runtime.walk;
	__u64 next = walk->leaf_register, at = walk->leaf_base, kept, base, stack, end;

	if (!a->state.have_regs || user_word(state + walk->first, &base) ||
	    user_word(state + walk->stack, &stack) || user_word(state + walk->stack_end, &end))
		return 0;
	BOUND(next, RULE_REGISTERS - 1);
	BOUND(at, RULE_REGISTERS - 1);
	next = a->state.regs[next];
	at = a->state.regs[at];
	if (next >= stack && next < end && !(next & 7)) {
		a->runtime.lua.base = next;
		a->runtime.lua.left = 1;
		return 1;
	}
	return next < LUA_STACK_BYTES_MAX && (at == base || at - stack >= LUA_STACK_BYTES_MAX) &&
	       !stack_word(a, a->state.tie_cfa + (__s64)walk->sites[1].offset, &kept) && kept == state;
}

/*
 * The state of the innermost native frame, which is in the block, and its CFA: functions in the block that it
 * calls itself, and its beginnings and ends, have no rows of their own. 0: it has no frame, or an empty one.
 */
static __always_inline __u64 luajit_innermost(struct unwind_area *a)
{
	const __u64 bytes = a->runtime.walk.frame_bytes;
	struct unwind_state *t = &a->state;
	__u64 state = luajit_state_at(a, t->tie_sp, 1), code;
	__u32 distance;
	int pushed;

	if (state)
		return luajit_is_empty(a, state) ? 0 : state;
	if (luajit_is_frame(8)) {
		t->tie_cfa = t->tie_sp + 8 + bytes;
		return luajit_state_word(a, t->tie_sp + 8);
	}
	pushed = env_read_user(&code, sizeof code, t->tie_ip) ? -1 : arch_pushed_by_luajit(code);
	if (pushed >= 0) {
		t->tie_cfa = t->tie_sp + 8 + pushed;
		return 0;
	}
	if (luajit_state_at(a, t->tie_sp, 0))
		return 0;
	distance = luajit_distance();
	if (!distance)
		return 0;
	t->tie_cfa = t->tie_sp + distance + bytes;
	return luajit_state_word(a, t->tie_sp + distance);
}

/* Of the innermost native frame, which is the block's: what its registers say of Lua's innermost frame. */
static __always_inline void luajit_take_registers(struct unwind_area *a)
{
	__u64 next = a->runtime.walk.leaf_register, base = a->runtime.walk.leaf_base,
	      callee = a->runtime.walk.leaf_callee;
	struct runtime_lua *lua = &a->runtime.lua;

	BOUND(next, RULE_REGISTERS - 1);
	BOUND(base, RULE_REGISTERS - 1);
	BOUND(callee, RULE_REGISTERS - 1);
	lua->instruction = a->state.regs[next];
	lua->base = a->state.regs[base];
	/* the way of a callee that is not entered yet: what runs is where the block keeps it */
	lua->running = lua->instruction >= LUA_STACK_BYTES_MAX || lua->base == a->state.regs[callee];
	lua->left = !lua->running;
}

/* The native walk is at a frame [state.tie_sp, state.tie_cfa): notes it if it is the block's. */
UNWIND_FN int luajit_loop(void)
{
	struct unwind_area *a = env_area();
	struct runtime_state *r;
	struct unwind_state *t;
	struct lua_loop *loop;
	__u64 state;

	if (!a)
		return 0;
	t = &a->state;
	r = &a->runtime;
	if (t->tie_ip - r->walk.loop_start >= r->walk.loop_bytes ||
	    t->tie_ip - r->walk.loop_start + 1 == (__u64)(__s64)r->walk.sites[2].distance)
		return 0;
	if (r->lua.n_loops >= RUNTIME_SEGMENTS_MAX) {
		r->lua.lost = 1;
		return 0;
	}
	if (t->innermost && !r->lua.entered) {
		r->lua.entered = 1;
		state = luajit_innermost(a);
		if (!state)
			return 0;
	} else {
		state = luajit_state_at(a, t->tie_sp, 0);
	}
	if (!r->lua.n_loops && t->innermost && t->have_regs)
		luajit_take_registers(a);
	loop = lua_loop_at(a, r->lua.n_loops++);
	loop->native = native_number(a);
	loop->kind = RUNTIME_SEGMENT_CALLED;
	loop->state = state;
	loop->cfa = t->tie_cfa;
	return 0;
}

/* --- the walk of the frames */

/* The bytecode behind the one that the function runs which called the helper or the C code; 0: unknown. */
static __always_inline __u64 luajit_saved(struct unwind_area *a, const struct lua_loop *loop)
{
	__u64 next;

	return user_word(loop->cfa + (__s64)a->runtime.walk.sites[1].offset, &next) ? 0 : next;
}

/* Goes on with the coroutine of the next loop. 1; 0: there is none. */
UNWIND_FN int luajit_next_loop(void)
{
	struct unwind_area *a = env_area();
	const struct runtime_walk *walk;
	const struct lua_loop *loop;
	struct runtime_state *r;
	__u64 base, end;

	if (!a)
		return 0;
	r = &a->runtime;
	walk = &r->walk;
	if (r->lua.loop >= r->lua.n_loops) {
		r->part.whole = !r->lua.lost;
		r->part.reason = r->lua.lost ? RUNTIME_REASON_NO_THREAD : 0;
		return 0;
	}
	loop = lua_loop_at(a, r->lua.loop);
	if (loop->state == r->lua.state) /* its frames were walked to the last one */
		goto lost;
	r->lua.state = loop->state;
	r->lua.skip = 0;
	r->lua.first = r->lua.running && !r->lua.loop;
	if (!loop->state || user_word(loop->state + walk->stack, &r->lua.stack) ||
	    user_word(loop->state + walk->stack_end, &end) || user_word(loop->state + walk->first, &base))
		goto lost;
	if (!r->lua.loop && (r->lua.running || r->lua.left) && !(r->lua.base & 7) &&
	    r->lua.base - r->lua.stack < end - r->lua.stack)
		base = r->lua.base;
	else
		r->lua.first = 0;
	if (r->lua.traced && !r->lua.loop)
		base = luajit_traced(loop->state);
	r->lua.stack_end = end + LUAJIT_STACK_EXTRA;
	if (base & 7 || base - r->lua.stack - 16 >= LUA_STACK_BYTES_MAX || base > r->lua.stack_end)
		goto lost;
	r->cursor = base - 8;
	r->lua.kept = !r->lua.first && !(r->lua.traced && !r->lua.loop);
	r->lua.next = r->lua.first  ? r->lua.instruction
		      : r->lua.kept ? luajit_saved(a, loop)
				    : 0; /* the bytecode of the next frame */
	return 1;
lost:
	r->lua.lost = 1;
	lua_segment();
	return 1;
}

/* The number of bytes of the function's bytecode, and where that begins; 0: it is not Lua's. */
static __always_inline __u64 luajit_bytecode(const struct runtime_walk *walk, __u64 function, __u64 *begin)
{
	__u8 head[8]; /* from LUAJIT_TYPE - 1 on */
	__u32 n;

	if (env_read_user(head, sizeof head, function + LUAJIT_TYPE - 1) || head[1] != LUAJIT_FUNCTION ||
	    head[2] || user_word(function + walk->scope, begin) ||
	    env_read_user(&n, sizeof n, *begin - walk->instructions + walk->n_instructions))
		return 0;
	return (__u64)n * walk->instruction_bytes;
}

/* Whether the frame's function goes on at `next` in a function of Lua that has called it. */
UNWIND_FN int luajit_returns_to(__u64 frame, __u64 next)
{
	struct unwind_area *a = env_area();
	__u64 function, begin = 0, bytes;
	__u32 instruction;

	if (!a || next & LUAJIT_WAY_RETURN || env_read_user(&instruction, sizeof instruction, next - 4))
		return 0;
	frame -= 16 + 8ull * (instruction >> 8 & 255);
	if (frame - a->runtime.lua.stack >= LUA_STACK_BYTES_MAX || user_word(frame - 8, &function))
		return 0;
	bytes = luajit_bytecode(&a->runtime.walk, function & ((1ull << LUAJIT_POINTER_BITS) - 1), &begin);
	return next - begin - 1 < bytes;
}

/* The line of the instruction before the one at `next`; 0: unknown. */
UNWIND_FN __u32 luajit_line(__u64 code, __u64 next)
{
	struct unwind_area *a = env_area();
	const struct runtime_walk *walk;
	__u32 lines[2], line = 0, width; /* the first one, how many */
	__u64 at, i;

	if (!a)
		return 0;
	walk = &a->runtime.walk;
	i = (next - code - walk->instructions) / 4 - 1;
	if (env_read_user(lines, sizeof lines, code + walk->first_line))
		return 0;
	if (!i)
		return lines[0];
	if (user_word(code + walk->lines, &at) || !at)
		return 0;
	width = 1 + (lines[1] >= 256) + 2 * (lines[1] >= 65536);
	BOUND(width, 7);
	if (width > 4 || env_read_user(&line, width, at + (i - 1) * width))
		return 0;
	return lines[0] + line;
}

/*
 * Adds the frame of a function of Lua that goes on at r->lua.next. 0; -1: it is not such a function's.
 */
static __always_inline int luajit_frame_add(struct unwind_area *a, __u64 code, __u64 next)
{
	struct runtime_state *r = &a->runtime;
	const struct runtime_memo *memo = lua_memo(a, code);
	__u64 at = RUNTIME_KEPT_WORDS + r->part.n_words;

	if (next - memo->instructions - 1 >= memo->instructions_bytes) {
		if (next && !r->lua.kept)
			return -1;
		next = 0; /* what the block keeps is of an earlier time */
	}
	if (!memo->number || at > LUA_LOOPS - 2 || next & 3)
		return -1;
	a->frames[at] = frame_runtime_head(r->walk.runtime, 1, memo->number);
	a->frames[at + 1] = next ? luajit_line(code, next) : 0;
	r->part.n_words += 2;
	return 0;
}

/*
 * The innermost frame while the block of code itself runs: around a call and a return, the register has a
 * frame that is not entered yet, or was left, and the other one its caller's bytecode. Returns the way to
 * the caller's frame. r->lua.next: 0 if the function does not run.
 */
static __always_inline __u64 luajit_enter(struct runtime_state *r, __u64 function, __u64 way)
{
	__u64 next = r->lua.next, begin = 0, bytes = luajit_bytecode(&r->walk, function, &begin);

	if (next - begin - 1 < bytes)
		return way;
	if (next < LUA_STACK_BYTES_MAX && next & LUAJIT_WAY_RETURN) /* it is about to be stored */
		way = next;
	r->lua.next = 0;
	r->lua.skip = 1;
	return luajit_returns_to(r->cursor, next) ? next : way;
}

/* Goes on with the frame at the cursor. 0, or enum runtime_reason. */
UNWIND_FN int luajit_frame(void)
{
	struct unwind_area *a = env_area();
	__u64 words[4], function, way, begin = 0, next, caller; /* what continues, where; function, way */
	struct runtime_state *r;
	__u32 type, skip, ends, instruction;

	if (!a)
		return RUNTIME_REASON_READ_FAULT;
	r = &a->runtime;
	if (r->cursor <= r->lua.stack + 8) {
		r->cursor = 0;
		if (r->part.n_words > r->n_ended)
			lua_segment();
		return 0;
	}
	if (env_read_user(words, sizeof words, r->cursor - 24))
		return RUNTIME_REASON_READ_FAULT;
	function = words[2] & ((1ull << LUAJIT_POINTER_BITS) - 1);
	way = words[3];
	if (r->lua.first)
		way = luajit_enter(r, function, way);
	r->lua.first = 0;
	skip = r->lua.skip;
	next = r->lua.next;
	if (!skip && function != r->lua.state && luajit_bytecode(&r->walk, function, &begin) &&
	    luajit_frame_add(a, begin - r->walk.instructions, next))
		return RUNTIME_REASON_INCONSISTENT;
	type = way & LUAJIT_WAY_TYPE;
	r->lua.skip = type == LUAJIT_WAY_VARARG;
	ends = type == LUAJIT_WAY_C || type == LUAJIT_WAY_PROTECTED_C ||
	       (type == LUAJIT_WAY_CONTINUATION && words[0] == LUAJIT_CALLBACK);
	if (way & LUAJIT_WAY_RETURN) {
		caller = r->cursor - (way & ~LUAJIT_WAY_TYPE);
		next = type == LUAJIT_WAY_CONTINUATION ? words[1] : 0;
	} else {
		if (env_read_user(&instruction, sizeof instruction, way - sizeof instruction))
			return RUNTIME_REASON_READ_FAULT;
		caller = r->cursor - 16 - 8ull * (instruction >> 8 & 255);
		next = way;
	}
	if (r->cursor - caller - 1 >= LUAJIT_FRAME_BYTES_MAX || caller < r->lua.stack)
		return RUNTIME_REASON_INCONSISTENT;
	if (ends) {
		lua_segment();
		next = r->lua.loop < r->lua.n_loops && lua_loop_at(a, r->lua.loop)->state == r->lua.state
			       ? luajit_saved(a, lua_loop_at(a, r->lua.loop))
			       : 0;
	}
	r->lua.next = next;
	r->lua.kept = ends;
	r->cursor = caller;
	return 0;
}

/* As lua_step. */
UNWIND_FN int luajit_step(void)
{
	struct unwind_area *a = env_area();
	struct runtime_state *r;
	int reason = 0;

	if (!a)
		return 0;
	r = &a->runtime;
	if (r->part.n_words >= 2 * RUNTIME_FRAMES_MAX || r->steps++ >= RUNTIME_STEPS_MAX)
		reason = RUNTIME_REASON_DEPTH_LIMIT;
	else if (r->cursor)
		reason = luajit_frame();
	else if (!luajit_next_loop())
		return 0;
	r->part.reason = reason ?: r->part.reason;
	return !reason;
}

#endif
