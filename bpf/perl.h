/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Walks the frames of Perl (RUNTIME_SHAPE_PAIRED). They are contexts in arrays, the innermost one last;
 * each array belongs to a stack (PERL_SI), and stacks are a list. A new stack begins where native code
 * calls Perl code: to compare two elements, to read a tied variable, to destroy an object. Most contexts
 * are blocks and loops, which are no frames.
 *
 *	interpreter ─► stack ─► … ─► stack of the program
 *	    │            └─► contexts: block, function, block, eval, …
 *	    └─► current statement
 *
 * A context has the statement from which it was entered: that is where the frame behind it is. A statement
 * (COP) has a line and a file, so the file of a frame is that of its statement, as caller() has it.
 *
 * A function that returns to no operation was called by native code, or by the last operation of a block
 * that native code calls (sort { f() }).
 *
 * The interpreter's loop leaves no mark on the native stack, and neither do contexts. What a segment begins
 * with says who has called its loop (enum runtime_segment_kind); beside it, callers that catch exceptions
 * have a place to jump to (JMPENV) on their native stack, of which there is a list. User space puts these
 * together.
 *
 * Of struct runtime_walk, `first`, `statement` and `environment` are offsets in the interpreter (at `start`
 * if not built for threads), `code` that of a function in a context, and `frame_bytes` is the size of one.
 * Other offsets are the same in all versions.
 */
#ifndef PROFLET_BPF_PERL_H
#define PROFLET_BPF_PERL_H

#include "bpf/runtime.h"

#define PERL_STEPS_A_CALL 16
#define PERL_STEPS_MAX (2 * RUNTIME_STEPS_MAX) /* most contexts are blocks */
#define PERL_JUMPS_MAX 16
#define PERL_CONTEXTS_MAX (1u << 24) /* more than fit into memory that a stack has */

/* contexts; the type has further bits, of which one means something else for evals */
#define PERL_TYPE 15u
#define PERL_TYPE_SORT 0u
#define PERL_TYPE_FUNCTION 9u
#define PERL_TYPE_FORMAT 10u
#define PERL_TYPE_EVAL 11u
#define PERL_MANY 0x10u	 /* a function: native code calls it many times */
#define PERL_BLOCK 0x40u /* an eval: eval {}, not a text or a file */
#define PERL_HIDDEN 0x80u
#define PERL_STATEMENT_BEFORE 0x10u
#define PERL_RETURN 0x30u
/* a stack */
#define PERL_STACK_MAIN 1u
#define PERL_STACK_KINDS 32u
/* a statement, from PERL_LINE on */
#define PERL_LINE 0x20u
/* a function; its body, from PERL_PACKAGE on */
#define PERL_FUNCTION 13u /* of the types of values; behind it, that of formats */
#define PERL_PACKAGE 0x20u
#define PERL_FILE 0x40u
#define PERL_LEXICAL 0x10000u
#define PERL_NAMED 0x8000u
/* a glob */
#define PERL_GLOB 0x10u
#define PERL_GLOB_EFFECTIVE 0x38u
#define PERL_GLOB_NAME 0x20u
#define PERL_GLOB_FILE 10u /* in the HEK with its name: the file's, behind "_<" */
/* a package's hash */
#define PERL_HASH_ARRAY 0x10u
#define PERL_HASH_MAX 0x18u
#define PERL_HASH_BODY_BYTES 0x20u

/* Reads the stack at `address`, whose contexts are next. 0; -1: unreadable, or it is none. */
static __always_inline int perl_stack_read(struct runtime_state *r, __u64 address)
{
	__u64 words[6];
	__u32 index, most;

	if (env_read_user(words, sizeof words, address))
		return -1;
	index = (__u32)words[4] + 1;
	most = words[4] >> 32;
	r->perl.contexts = words[1];
	r->perl.outer = words[2];
	r->perl.left = index;
	r->perl.stack_kind = words[5] >> (r->walk.stack_kind & 4) * 8;
	if (index > most + 1 || most >= PERL_CONTEXTS_MAX || !words[1] || words[1] & 7 ||
	    r->perl.stack_kind >= PERL_STACK_KINDS)
		return -1;
	return 0;
}

/* Whether there is an interpreter at `state`, by its stack. */
UNWIND_FN int perl_is_state(__u64 state)
{
	struct unwind_area *a = env_area();
	__u64 stack;

	if (!a || !state || state & 7 || env_read_user(&stack, sizeof stack, state + a->runtime.walk.first))
		return 0;
	return stack && !perl_stack_read(&a->runtime, stack);
}

/*
 * Whether what looks like one is an interpreter, where any word may: its current values, before its stack,
 * are the stack's. They differ for some instructions when Perl changes stacks.
 */
UNWIND_FN int perl_is_interpreter(__u64 state)
{
	struct unwind_area *a = env_area();
	__u64 words[2], values;

	return a && !env_read_user(words, sizeof words, state + a->runtime.walk.first - 8) && words[0] &&
	       !env_read_user(&values, sizeof values, words[1]) && values == words[0];
}

static __always_inline void perl_segment(struct unwind_area *a, __u32 kind, __u64 marker, __u32 end)
{
	struct runtime_state *r = &a->runtime;
	__u32 n = r->part.n_segments;

	r->n_ended = end;
	if (n >= RUNTIME_SEGMENTS_MAX) {
		runtime_segment(a, RUNTIME_SEGMENTS_MAX - 1)->end = end;
		return;
	}
	*runtime_segment(a, n) = (struct runtime_segment){
		.marker = marker, .native = RUNTIME_NOT_TIED, .end = end, .kind = kind};
	r->part.n_segments = n + 1;
}

/* Segments for the places to jump to, innermost first. The outermost one is the interpreter's own. */
static __always_inline void perl_jumps(struct unwind_area *a, __u64 state)
{
	__u64 jump, outer;

	if (env_read_user(&jump, sizeof jump, state + a->runtime.walk.environment))
		return;
	ROLLED
	for (int i = 0; i < PERL_JUMPS_MAX; i++) {
		if (!jump || env_read_user(&outer, sizeof outer, jump) || !outer)
			return;
		perl_segment(a, RUNTIME_SEGMENT_JUMP, jump, 0);
		jump = outer;
	}
}

/*
 * Begins the walk at the interpreter `state`. 0, -1. One that nothing can be thrown to runs no program
 * (yet).
 */
UNWIND_FN int perl_begin(__u64 state)
{
	struct unwind_area *a = env_area();
	struct runtime_state *r;

	if (!a)
		return -1;
	r = &a->runtime;
	r->perl.file = r->perl.called = r->perl.called_at = r->perl.eval = 0;
	if (env_read_user(&r->cursor, sizeof r->cursor, state + r->walk.first) ||
	    env_read_user(&r->perl.statement, sizeof r->perl.statement, state + r->walk.statement) ||
	    perl_stack_read(r, r->cursor)) {
		r->cursor = 0;
		return -1;
	}
	perl_jumps(a, state);
	r->perl.runs = r->part.n_segments != 0;
	return 0;
}

/* --- what identifies a frame */

/* The file name that a statement's glob has; 0: unreadable. */
static __always_inline __u64 perl_glob_file(__u64 glob)
{
	__u64 body, name;

	if (!glob || env_read_user(&body, sizeof body, glob) ||
	    env_read_user(&name, sizeof name, body + PERL_GLOB_NAME) || !name)
		return 0;
	return name + PERL_GLOB_FILE;
}

/* Reads where the statement is: line, file. Without a statement: where the function is. */
static __always_inline void perl_place(struct runtime_state *r, __u64 function)
{
	__u64 words[3]; /* with the line in the upper half of the first, the file in the last */

	if (!r->perl.statement || env_read_user(words, sizeof words, r->perl.statement + PERL_LINE))
		words[0] = words[2] = 0;
	r->perl.line = words[0] >> 32;
	if (!r->perl.statement && (env_read_user(words, sizeof words[0], function) ||
				   env_read_user(&words[2], sizeof words[2], words[0] + PERL_FILE)))
		words[2] = 0;
	if (r->perl.statement && r->walk.flags & RUNTIME_WALK_GLOB_FILES)
		words[2] = perl_glob_file(words[2]);
	if (words[2] == r->perl.file)
		return;
	r->perl.file = words[2];
	r->perl.file_hash = text_hash(words[2]);
}

/* The HEK with the name of the package whose hash is at `hash`; 0: it has none. */
static __always_inline __u64 perl_package(const struct runtime_walk *walk, __u64 hash)
{
	__u64 body, at, array, max, names[4];

	if (!hash || env_read_user(&body, sizeof body, hash))
		return 0;
	at = body + PERL_HASH_BODY_BYTES;
	if (!(walk->flags & RUNTIME_WALK_BODY_NAMES)) {
		if (env_read_user(&array, sizeof array, hash + PERL_HASH_ARRAY) ||
		    env_read_user(&max, sizeof max, body + PERL_HASH_MAX))
			return 0;
		at = array + (max + 1) * 8;
	}
	if (env_read_user(names, sizeof names, at))
		return 0;
	if (names[3] >> 32 && env_read_user(&names[0], sizeof names[0], names[0])) /* the first of several */
		return 0;
	return names[0];
}

/* What a glob says of its function: name and package. */
static __always_inline void perl_glob(struct runtime_state *r, __u64 glob)
{
	__u64 content, effective, body, words[2];

	if (!glob || env_read_user(&content, sizeof content, glob + PERL_GLOB) || !content ||
	    env_read_user(&effective, sizeof effective, content + PERL_GLOB_EFFECTIVE))
		return;
	if (env_read_user(&body, sizeof body, effective ?: glob) ||
	    env_read_user(words, sizeof words, body + PERL_GLOB_NAME))
		return;
	r->perl.name = words[0];
	r->perl.package = perl_package(&r->walk, words[1]);
}

static __always_inline __u64 perl_name_mix(__u64 h, __u64 hek)
{
	__u64 word = 0; /* hash, length */

	if (hek && env_read_user(&word, sizeof word, hek))
		word = 0;
	return number_mix(number_mix(h, hek), word);
}

/* Finds the names of a function. Returns its hash, of all that identifies it; 0: it is no function. */
UNWIND_FN __u64 perl_names(__u64 function)
{
	struct unwind_area *a = env_area();
	struct runtime_state *r;
	__u64 head[2], body[8], h; /* the body with the package first, the name fourth, the flags last */
	__u32 flags;

	if (!a || !function)
		return 0;
	r = &a->runtime;
	r->perl.name = r->perl.package = 0;
	if (env_read_user(head, sizeof head, function) || (head[1] >> 32 & 0xff) - PERL_FUNCTION > 1 ||
	    env_read_user(body, sizeof body, head[0] + PERL_PACKAGE))
		return 0;
	flags = body[7] >> 32;
	r->perl.code = RUNTIME_PERL_FUNCTION;
	if (!(flags & PERL_NAMED)) {
		perl_glob(r, body[3]);
	} else {
		r->perl.name = body[3];
		if (flags & PERL_LEXICAL)
			r->perl.code = RUNTIME_PERL_LEXICAL;
		else
			r->perl.package = perl_package(&r->walk, body[0]);
	}
	h = number_mix(r->walk.salt ^ function * 0x9e3779b97f4a7c15ull, head[0]);
	return perl_name_mix(perl_name_mix(h, r->perl.name), r->perl.package) | 1;
}

/*
 * The number of a frame's code: of the function, or what else it is, and the file that its statement is in.
 * 0: it is no function.
 */
static __always_inline __u64 perl_number(struct unwind_area *a, __u64 function)
{
	struct runtime_state *r = &a->runtime;
	__u64 i = function >> 4 ^ r->perl.file >> 5, h;
	struct runtime_memo *memo;

	BOUND(i, RUNTIME_MEMO - 1);
	memo = &r->memo[i];
	if (memo->code == function && memo->instructions == r->perl.file)
		return memo->number;
	if (function > RUNTIME_PERL_CODES) {
		h = perl_names(function);
		if (!h)
			return 0;
	} else {
		h = r->walk.salt ^ function;
		r->perl.code = function - 1;
		r->perl.name = r->perl.package = 0;
	}
	h = number_mix(number_mix(h, r->perl.code), r->perl.file_hash) | 1;
	memo->code = function;
	memo->instructions = r->perl.file;
	memo->number = h;
	r->perl.report = h;
	return h;
}

/* --- the walk */

/*
 * Adds a frame at the present statement. `function`: its address, or 1 + enum runtime_perl_code. 0; -1: it
 * is no function.
 */
static __always_inline int perl_frame_add(struct unwind_area *a, __u64 function)
{
	struct runtime_state *r = &a->runtime;
	__u64 number, at;

	perl_place(r, function);
	number = perl_number(a, function);
	at = RUNTIME_KEPT_WORDS + r->part.n_words;
	if (!number || at > RUNTIME_SCRATCH - 2)
		return -1;
	a->frames[at] = frame_runtime_head(r->walk.runtime, 1, number);
	a->frames[at + 1] = r->perl.line;
	if (r->part.n_words == 2 && r->perl.called_at && a->frames[at] == a->frames[at - 2])
		a->frames[at - 1] = r->perl.called_at;
	r->part.n_words += 2;
	return 0;
}

/* Ends the segment. A caller that catches no exceptions itself has let an eval call a loop of its own. */
static __always_inline void perl_segment_end(struct unwind_area *a, __u32 kind)
{
	struct runtime_state *r = &a->runtime;

	if (r->perl.eval &&
	    (kind == RUNTIME_SEGMENT_CALL || kind == RUNTIME_SEGMENT_LAST || kind == RUNTIME_SEGMENT_MANY))
		perl_segment(a, RUNTIME_SEGMENT_EVAL, 0, r->perl.eval_end);
	r->perl.eval = r->perl.called = 0;
	perl_segment(a, kind, 0, r->part.n_words);
}

/* What the context ends, whose type is `kind`, `returns` being where it returns to; 0: to native code. */
static __always_inline void perl_context_end(struct unwind_area *a, __u32 kind, __u64 returns)
{
	struct runtime_state *r = &a->runtime;

	switch (kind & PERL_TYPE) {
	case PERL_TYPE_FUNCTION:
		if (!returns)
			r->perl.called = 1; /* behind the eval of a caller that catches exceptions, if any */
		break;
	case PERL_TYPE_EVAL:
		if (!returns) {
			perl_segment_end(a,
					 kind & PERL_BLOCK ? RUNTIME_SEGMENT_CATCH : RUNTIME_SEGMENT_STRING);
		} else {
			r->perl.eval = 1;
			r->perl.eval_end = r->part.n_words;
		}
		break;
	default:
		break;
	}
}

/*
 * A function that has only just been called has no statement of its own yet: the current one is its
 * caller's, also the one from which it was entered. A function that calls itself may as well be at the same
 * statement again: perl_frame_add() gives it that one's line if the next frame is of the same function.
 */
static __always_inline void perl_first_statement(struct runtime_state *r, __u64 before, __u32 type)
{
	__u64 line;

	if (r->part.n_words || type != PERL_TYPE_FUNCTION || before != r->perl.statement)
		return;
	if (!env_read_user(&line, sizeof line, before + PERL_LINE))
		r->perl.called_at = line >> 32;
	r->perl.statement = 0;
}

/* The frame of a context, which was entered from the statement `before`. 0; -1: it has no function. */
static __always_inline int perl_frame_of(struct unwind_area *a, __u32 type, __u64 before, __u64 function)
{
	struct runtime_state *r = &a->runtime;
	__u64 statement = r->perl.statement;

	if (type != PERL_TYPE_EVAL && function <= RUNTIME_PERL_CODES)
		return -1;
	perl_first_statement(r, before, type);
	if (perl_frame_add(a, function)) {
		r->perl.statement = statement;
		return -1;
	}
	r->perl.statement = before;
	return 0;
}

/*
 * Goes on with the next context of the stack. 0, or enum runtime_reason. The innermost one of all may not be
 * filled in yet: it is no frame if it has no function.
 */
UNWIND_FN int perl_context(void)
{
	struct unwind_area *a = env_area();
	struct runtime_state *r;
	__u64 at, o, returns;
	__u32 kind, type, many;

	if (!a)
		return RUNTIME_REASON_UNKNOWN;
	r = &a->runtime;
	r->perl.left--;
	at = r->perl.contexts + (__u64)r->perl.left * r->walk.frame_bytes;
	if (frame_window(a, at))
		return RUNTIME_REASON_READ_FAULT;
	o = at - a->state.window;
	kind = (__u8)window_word(a, o);
	type = kind & PERL_TYPE;
	returns = window_word(a, o + PERL_RETURN);
	many = type == PERL_TYPE_SORT || (type == PERL_TYPE_FUNCTION && kind & PERL_MANY && !returns);
	if (r->perl.called && !(type == PERL_TYPE_EVAL && kind & PERL_BLOCK && !returns))
		perl_segment_end(a, many ? RUNTIME_SEGMENT_LAST : RUNTIME_SEGMENT_CALL);
	if (type >= PERL_TYPE_FUNCTION && type <= PERL_TYPE_EVAL && !(kind & PERL_HIDDEN)) {
		__u64 function =
			type == PERL_TYPE_EVAL ? 1 + RUNTIME_PERL_EVAL : window_word(a, o + r->walk.code);

		if (perl_frame_of(a, type, window_word(a, o + PERL_STATEMENT_BEFORE), function))
			return r->steps > 1 ? RUNTIME_REASON_INCONSISTENT : 0;
	}
	if (many)
		perl_segment_end(a, RUNTIME_SEGMENT_MANY);
	else
		perl_context_end(a, kind, returns);
	return 0;
}

/*
 * All contexts of the stack are done: goes on with the next stack, or ends the walk. 0, enum
 * runtime_reason.
 */
UNWIND_FN int perl_stack_end(void)
{
	struct unwind_area *a = env_area();
	struct runtime_state *r;

	if (!a)
		return RUNTIME_REASON_UNKNOWN;
	r = &a->runtime;
	if (r->perl.called)
		perl_segment_end(a, RUNTIME_SEGMENT_CALL);
	if (r->perl.stack_kind != PERL_STACK_MAIN) {
		r->cursor = r->perl.outer;
		return perl_stack_read(r, r->cursor) ? RUNTIME_REASON_INCONSISTENT : 0;
	}
	r->cursor = 0;
	if (!r->perl.runs)
		return 0;
	if (perl_frame_add(a, 1 + RUNTIME_PERL_MAIN))
		return RUNTIME_REASON_DEPTH_LIMIT;
	perl_segment_end(a, RUNTIME_SEGMENT_MAIN);
	return 0;
}

/* As runtime_ends. */
static __always_inline int perl_ends(struct runtime_state *r)
{
	if (!r->cursor) {
		r->part.whole = 1;
		return 1;
	}
	if (r->part.n_words >= 2 * RUNTIME_FRAMES_MAX || r->steps >= PERL_STEPS_MAX) {
		r->part.reason = RUNTIME_REASON_DEPTH_LIMIT;
		return 1;
	}
	r->steps++;
	return 0;
}

/* As runtime_steps. */
UNWIND_FN int perl_steps(void)
{
	struct unwind_area *a = env_area();
	struct runtime_state *r;

	if (!a)
		return 0;
	r = &a->runtime;
	ROLLED
	for (int k = 0; k < PERL_STEPS_A_CALL; k++) {
		int reason;

		if (perl_ends(r))
			return 0;
		r->perl.report = 0;
		reason = r->perl.left ? perl_context() : perl_stack_end();
		if (r->perl.report)
			env_report_code(r->perl.report, 0);
		if (reason) {
			r->part.reason = reason;
			return 0;
		}
	}
	return 1;
}

#endif
