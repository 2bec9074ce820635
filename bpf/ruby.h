/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Frames of Ruby (RUNTIME_SHAPE_ARRAY). Part of runtime.h, which has what all runtimes need.
 *
 *	thread pointer ─► execution context ─► its stack: control frames, innermost first, up to the end
 *	control frame ─┬► pc
 *	               ├► iseq ─► body: instructions, names, lines
 *	               └► ep: the frame's kind; [-2] method entry; [-1] ep of the code that the block is in
 *
 * The fields of struct runtime_walk: `start` has a pointer to the running thread's context (2.7), else a
 * thread-local variable has it. `thread`: of the context; `code`, `instruction` and `kind` (ep): of a control
 * frame; `scope`: class of a method entry; `instructions`, `n_instructions`, `instruction_bytes` and
 * `lines`: in a body, the table of lines, its length, the size of an entry, and the index by position;
 * `text_length`: of a string within its object, 0: in the object's flags; `bytes`: where that string begins.
 * What is the same in all versions is constant here.
 */
#ifndef PROFLET_BPF_RUBY_H
#define PROFLET_BPF_RUBY_H

/* Objects begin with flags. */
#define RUBY_TYPE_MASK 0x1full
#define RUBY_TYPE_CLASS 2u
#define RUBY_TYPE_MODULE 3u
#define RUBY_TYPE_STRING 5u
#define RUBY_TYPE_ARRAY 7u
#define RUBY_TYPE_INTERNAL 0x1au
#define RUBY_INTERNAL(flags) ((flags) >> 12 & 15) /* of those: what it is */
#define RUBY_INTERNAL_SVAR 2u			  /* has the method entry at +8 */
#define RUBY_INTERNAL_METHOD 6u
#define RUBY_INTERNAL_ISEQ 7u
#define RUBY_ELSEWHERE (1ull << 13) /* of a string: it is not in the object; of an array: it is */

#define RUBY_STACK_WORDS_MIN 256u
#define RUBY_STACK_WORDS_MAX (1u << 24)

/* The word at ep: a number, so its lowest bit is set. */
#define RUBY_KIND(flags) ((flags) >> 16 & 0x7fff)
#define RUBY_KIND_NATIVE 0x5555u
#define RUBY_KIND_IFUNC 0x6666u
#define RUBY_KIND_RESCUE 0x7888u
#define RUBY_KIND_DUMMY 0x7999u
#define RUBY_FINISH 0x20u /* the last frame of one execution of the loop */
#define RUBY_LOCAL 2u	  /* it is no block's */
#define RUBY_SCOPES_MAX 8 /* blocks in blocks that are followed to their method */

/* iseq, body */
#define RUBY_BODY 16u
#define RUBY_LOCATION 64u /* file, base label, label, first line, and where the code is in the file */
#define RUBY_LABEL 80u
#define RUBY_FIRST_LINE 88u
#define RUBY_LOCATION_WORDS 6
#define RUBY_ISEQ_EVAL 6u
#define RUBY_EVALS_MAX 4 /* in each other, that are followed */
/* method entry, definition */
#define RUBY_DEFINITION 16u
#define RUBY_OWNER 32u
#define RUBY_FUNCTION 8u
#define RUBY_ORIGINAL_ID 32u

/* The index of lines by position: positions below RUBY_DIRECT have seven bits each, then come blocks. */
#define RUBY_DIRECT 54u
#define RUBY_DIRECT_A_WORD 9u
#define RUBY_DIRECT_BYTES 48u
#define RUBY_BLOCK_POSITIONS 512u
#define RUBY_BLOCK_BYTES 80u

/* Whether the context is the sampled thread's; then its frames are those that are walked. */
UNWIND_FN int ruby_enter(__u64 context)
{
	struct unwind_area *a = env_area();
	struct runtime_state *r;
	__u64 stack[3], end, thread, back; /* stack: its begin, words, the innermost frame */

	if (!a || !context || context & 7 || env_read_user(stack, sizeof stack, context))
		return 0;
	r = &a->runtime;
	end = stack[0] + stack[1] * 8;
	if (stack[0] & 7 || stack[1] < RUBY_STACK_WORDS_MIN || stack[1] > RUBY_STACK_WORDS_MAX ||
	    stack[2] <= stack[0] || stack[2] >= end || (end - stack[2]) % r->walk.frame_bytes)
		return 0;
	if (user_word(context + r->walk.thread, &thread) || user_word(thread + r->walk.back, &back) ||
	    back != (r->walk.start ? r->thread : context))
		return 0;
	r->cursor = stack[2];
	r->end = end;
	r->handler_line = 0;
	return 1;
}

/* Where the first frame of the sampled thread is. 0; or -1: it cannot be read. */
UNWIND_FN int ruby_first(void)
{
	struct unwind_area *a = env_area();
	struct runtime_state *r;
	__u64 context;

	if (!a)
		return 0;
	r = &a->runtime;
	r->cursor = 0;
	r->thread = env_thread_pointer();
	if (!r->thread)
		return 0;
	if (!r->walk.start) {
		(void)thread_state(r);
		return 0;
	}
	if (user_word(r->walk.start, &context))
		return -1;
	ruby_enter(context); /* else another thread's: this one does not run Ruby code now */
	return 0;
}

/* Fills the window so that it holds the frame at `frame` whole, and what lies above it in the page. */
static __always_inline int ruby_window(struct unwind_area *a, __u64 frame)
{
	struct unwind_state *t = &a->state;
	__u64 bytes = a->runtime.walk.frame_bytes, length = PAGE_BYTES_MIN - (frame & (PAGE_BYTES_MIN - 1));

	if (frame - t->window < t->window_len && frame - t->window + bytes <= t->window_len)
		return 0;
	if (length < bytes)
		length = bytes;
	if (length > WINDOW_BYTES - 8)
		length = WINDOW_BYTES - 8;
	BOUND(length, WINDOW_BYTES - 1);
	t->window_len = 0;
	if (env_read_user(a->window, length, frame))
		return -1;
	t->window = frame;
	t->window_len = length;
	return 0;
}

static __always_inline int ruby_is_internal(__u64 flags, __u32 what)
{
	return (flags & RUBY_TYPE_MASK) == RUBY_TYPE_INTERNAL && RUBY_INTERNAL(flags) == what;
}

/* The method entry that the word at ep[-2] is, or leads to; 0: none. */
static __always_inline __u64 ruby_entry(__u64 object)
{
	__u64 flags[2];

	if (!object || env_read_user(flags, sizeof flags, object))
		return 0;
	if (ruby_is_internal(flags[0], RUBY_INTERNAL_SVAR)) {
		object = flags[1];
		if (env_read_user(flags, sizeof flags, object))
			return 0;
	}
	return ruby_is_internal(flags[0], RUBY_INTERNAL_METHOD) ? object : 0;
}

/* The method entry of a frame, by its ep: that of the method in which its block is. 0: it is in none. */
UNWIND_FN __u64 ruby_method(__u64 ep)
{
	ROLLED
	for (int i = 0; i < RUBY_SCOPES_MAX; i++) {
		__u64 env[3], method;

		if (env_read_user(env, sizeof env, ep - 16))
			return 0;
		method = ruby_entry(env[0]);
		if (method || env[2] & RUBY_LOCAL)
			return method;
		ep = env[1] & ~3ull;
	}
	return 0;
}

/*
 * The string with the name of a class or module, or of the one that the class of one object belongs to; then
 * its lowest bit is set. 0: it has none.
 */
UNWIND_FN __u64 ruby_class_path(__u64 class)
{
	struct unwind_area *a = env_area();
	__u64 flags, path, single;

	if (!a || a->runtime.walk.scope_name == RUNTIME_NO_OFFSET || user_word(class, &flags))
		return 0;
	single = flags >> (a->runtime.walk.single_flag & 63) & 1 &&
		 (flags & RUBY_TYPE_MASK) == RUBY_TYPE_CLASS;
	if (single && (user_word(class + a->runtime.walk.attached, &class) || user_word(class, &flags)))
		return 0;
	flags &= RUBY_TYPE_MASK;
	if ((flags != RUBY_TYPE_CLASS && flags != RUBY_TYPE_MODULE) ||
	    user_word(class + a->runtime.walk.scope_name, &path) || path & 7 || !path)
		return 0;
	return path | single;
}

/* A string's text. 0; -1: it is unreadable, or no string. */
static __always_inline int ruby_text_at(const struct runtime_walk *walk, __u64 string, __u64 *ret_flags,
					__u64 *ret_at, __u64 *ret_length)
{
	__u64 words[4]; /* flags, class, then length and address, or the string itself */

	if (!string || env_read_user(words, sizeof words, string))
		return -1;
	*ret_flags = words[0];
	if ((words[0] & RUBY_TYPE_MASK) != RUBY_TYPE_STRING)
		return -1;
	*ret_length = words[2];
	*ret_at = string + walk->bytes;
	if (words[0] & RUBY_ELSEWHERE)
		*ret_at = words[3];
	else if (!walk->text_length)
		*ret_length = words[0] >> 14 & 31;
	return 0;
}

/* Adds a string to a number: where it is, and its text, which another one may have had there before. */
static __always_inline __u64 ruby_text_mix(struct unwind_area *a, __u64 h, __u64 string)
{
	__u64 flags, at, length;

	h = number_mix(h, string);
	return ruby_text_at(&a->runtime.walk, string & ~7ull, &flags, &at, &length) ? h
										    : text_mix(h, at, length);
}

/* Where element `i` of an array is; 0: it is none, or it has none. */
static __always_inline __u64 ruby_element(__u64 array, __u64 i)
{
	__u64 words[5], n; /* flags, class, then length and address, or the elements themselves */

	if (!array || env_read_user(words, sizeof words, array) ||
	    (words[0] & RUBY_TYPE_MASK) != RUBY_TYPE_ARRAY)
		return 0;
	n = words[0] & RUBY_ELSEWHERE ? words[0] >> 15 & 127 : words[2];
	if (i >= n)
		return 0;
	return (words[0] & RUBY_ELSEWHERE ? array + 16 : words[4]) + i * 8;
}

/* The string with the file of a location: that, or the first one of an array. 0: unreadable. */
UNWIND_FN __u64 ruby_file(__u64 object)
{
	__u64 first = ruby_element(object, 0);

	if (!first)
		return object;
	return user_word(first, &object) ? 0 : object;
}

/* The body with the label: code that is evaluated has that of what it is evaluated in. */
UNWIND_FN __u64 ruby_labelled(__u64 body)
{
	struct unwind_area *a = env_area();

	if (!a)
		return body;
	ROLLED
	for (int i = 0; i < RUBY_EVALS_MAX; i++) {
		__u64 parent, of;
		__u32 type;

		if (env_read_user(&type, sizeof type, body) || type != RUBY_ISEQ_EVAL ||
		    user_word(body + a->runtime.walk.local - 8, &parent) || !parent ||
		    user_word(parent + RUBY_BODY, &of))
			break;
		body = of;
	}
	return body;
}

/* Adds the class of the frame's method to a number. */
UNWIND_FN __u64 ruby_class_mix(__u64 h)
{
	struct unwind_area *a = env_area();
	__u64 class, path;

	if (!a || !a->runtime.method || user_word(a->runtime.method + a->runtime.walk.scope, &class))
		return h;
	path = ruby_class_path(class);
	return path ? ruby_text_mix(a, h, path) : h;
}

/* The number of an iseq, by its body, which stays where it is. 0: it cannot be read. */
UNWIND_FN __u64 ruby_iseq_number(__u64 iseq)
{
	struct unwind_area *a = env_area();
	__u64 body, content[RUBY_LOCATION_WORDS], head[2], h, label;

	if (!a || user_word(iseq + RUBY_BODY, &body) || env_read_user(head, sizeof head, body) ||
	    env_read_user(content, sizeof content, body + RUBY_LOCATION))
		return 0;
	h = a->runtime.walk.salt ^ body * 0x9e3779b97f4a7c15ull;
	h = number_mix(number_mix(h, head[0]), head[1]);
	for (int i = 0; i < RUBY_LOCATION_WORDS; i++)
		h = number_mix(h, content[i]);
	h = ruby_text_mix(a, h, ruby_file(content[0]));
	if (!user_word(ruby_labelled(body) + RUBY_LABEL, &label))
		h = ruby_text_mix(a, h, label);
	return ruby_class_mix(h) | 1;
}

/* The number of a function of native code: by its address, its name and its class. 0: it cannot be read. */
UNWIND_FN __u64 ruby_native_number(__u64 method)
{
	struct unwind_area *a = env_area();
	__u64 definition, function, id, h;

	if (!a || user_word(method + RUBY_DEFINITION, &definition) ||
	    user_word(definition + RUBY_FUNCTION, &function) || user_word(definition + RUBY_ORIGINAL_ID, &id))
		return 0;
	h = number_mix(a->runtime.walk.salt ^ function * 0x9e3779b97f4a7c15ull, id);
	return ruby_class_mix(h) | 1;
}

static __always_inline __u32 ruby_bits_set(__u64 x)
{
	x -= x >> 1 & 0x5555555555555555ull;
	x = (x & 0x3333333333333333ull) + (x >> 2 & 0x3333333333333333ull);
	x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0full;
	return x * 0x0101010101010101ull >> 56;
}

/* The entry of the table of lines for a position, counted from 1; 0: the index cannot be read. */
static __always_inline __u32 ruby_line_entry(__u64 index, __u64 position)
{
	__u64 block, word, head[2], bits, at;

	if (position < RUBY_DIRECT) {
		if (user_word(index + position / RUBY_DIRECT_A_WORD * 8, &word))
			return 0;
		return word >> position % RUBY_DIRECT_A_WORD * 7 & 127;
	}
	position -= RUBY_DIRECT;
	block = index + RUBY_DIRECT_BYTES + position / RUBY_BLOCK_POSITIONS * RUBY_BLOCK_BYTES;
	at = position % RUBY_BLOCK_POSITIONS;
	word = at / 64;
	if (env_read_user(head, sizeof head, block) || user_word(block + 16 + word * 8, &bits))
		return 0;
	/* entries before the block, of it before the word, and in the word */
	return (__u32)head[0] + (word ? head[1] >> (word - 1) * 9 & 511 : 0) +
	       ruby_bits_set(bits << (63 - at % 64));
}

/* The line of an instruction of the iseq; 0: unknown. The pc is behind it, but at the iseq's begin. */
UNWIND_FN __u32 ruby_line(__u64 iseq, __u64 pc)
{
	struct unwind_area *a = env_area();
	__u64 body, head[2], table, index, position;
	__u32 n, entry, line;

	if (!a || user_word(iseq + RUBY_BODY, &body) || env_read_user(head, sizeof head, body) ||
	    user_word(body + a->runtime.walk.instructions, &table) ||
	    env_read_user(&n, sizeof n, body + a->runtime.walk.n_instructions))
		return 0;
	position = (pc - head[1]) / 8; /* head: type and size; instructions */
	if (position > head[0] >> 32)
		return 0;
	if (position)
		position--;
	entry = 1;
	if (n != 1) {
		if (user_word(body + a->runtime.walk.lines, &index))
			return 0;
		entry = ruby_line_entry(index, position);
	}
	if (!entry || entry > n ||
	    env_read_user(&line, sizeof line, table + (entry - 1) * (__u64)a->runtime.walk.instruction_bytes))
		return 0;
	return line;
}

/* What is remembered of an iseq or a method entry; empty, if it is another one's. */
static __always_inline struct runtime_memo *ruby_memo(struct unwind_area *a, __u64 code)
{
	__u64 key = number_mix(code * 0x9e3779b97f4a7c15ull, a->runtime.method), i = key >> 56;
	struct runtime_memo *memo;

	BOUND(i, RUNTIME_MEMO - 1);
	memo = &a->runtime.memo[i];
	if (memo->code != key)
		*memo = (struct runtime_memo){.code = key};
	return memo;
}

/* 0; or -1: the record is full. */
static __always_inline int ruby_put(struct unwind_area *a, __u64 number, __u32 line)
{
	struct runtime_state *r = &a->runtime;
	__u64 at = RUNTIME_KEPT_WORDS + r->part.n_words;

	if (at > RECORD_WORDS - 2)
		return -1;
	a->frames[at] = frame_runtime_head(r->walk.runtime, 1, number);
	a->frames[at + 1] = line;
	r->part.n_words += 2;
	return 0;
}

/* Adds a frame of native code. One whose method entry, or name, is not known is left out. */
static __always_inline int ruby_add_native(struct unwind_area *a, __u64 object)
{
	__u64 method = ruby_entry(object);
	struct runtime_memo *memo;

	if (!method || !a->runtime.walk.symbols)
		return 0;
	a->runtime.method = method;
	memo = ruby_memo(a, method);
	if (!memo->number) {
		memo->number = ruby_native_number(method);
		if (memo->number)
			env_report_code(memo->number, method);
	}
	return memo->number ? ruby_put(a, memo->number, 0) : -1;
}

/*
 * The pc of a frame. While the loop runs, that of the innermost frame is in a register: the memory may have
 * an earlier one. Another register has the frame then.
 */
static __always_inline __u64 ruby_pc(struct unwind_area *a, __u64 frame, __u64 pc)
{
	__u64 i = a->runtime.walk.leaf_register;

	if (!i || a->runtime.part.n_words)
		return pc;
	BOUND(i, RULE_REGISTERS - 2);
	return a->state.regs[i + 1] == frame ? a->state.regs[i] : pc;
}

/* Adds the frame in the window at `o`, which runs an iseq. 0; or -1. */
static __always_inline int ruby_add(struct unwind_area *a, __u64 o)
{
	__u64 iseq, pc, ep, line;
	struct runtime_memo *memo;

	iseq = window_word(a, o + a->runtime.walk.code);
	ep = window_word(a, o + a->runtime.walk.kind);
	pc = ruby_pc(a, a->state.window + o, window_word(a, o + a->runtime.walk.instruction));
	if (!iseq)
		return 0;
	a->runtime.method = a->runtime.walk.scope_name == RUNTIME_NO_OFFSET ? 0 : ruby_method(ep);
	memo = ruby_memo(a, iseq);
	if (!memo->number) {
		memo->number = ruby_iseq_number(iseq);
		if (!memo->number)
			return -1;
		env_report_code(memo->number, iseq);
	}
	if (memo->instructions != pc) {
		memo->instructions = pc;
		memo->instructions_bytes = ruby_line(iseq, pc);
	}
	line = a->runtime.handler_line ?: memo->instructions_bytes;
	a->runtime.handler_line = 0;
	return ruby_put(a, memo->number, line);
}

/* A frame of code that handles an exception: what it belongs to is shown at its line. */
static __always_inline void ruby_handler(struct unwind_area *a, __u64 o)
{
	__u64 iseq = window_word(a, o + a->runtime.walk.code);
	__u64 pc = window_word(a, o + a->runtime.walk.instruction);

	if (!a->runtime.handler_line)
		a->runtime.handler_line = ruby_line(iseq, ruby_pc(a, a->state.window + o, pc));
}

/* Whether frames of this kind exist. */
static __always_inline int ruby_is_kind(__u32 kind)
{
	return (kind % 0x1111 == 0 && kind && kind <= 0x7777) || kind == RUBY_KIND_RESCUE ||
	       kind == RUBY_KIND_DUMMY;
}

/* One frame, in the window at `o`. 0, or the reason to end. */
UNWIND_FN int ruby_step(__u64 o)
{
	struct unwind_area *a = env_area();
	__u64 env[3]; /* method entry, -, flags */
	__u32 kind;
	int r = 0;

	if (!a || env_read_user(env, sizeof env, window_word(a, o + a->runtime.walk.kind) - 16))
		return RUNTIME_REASON_READ_FAULT;
	kind = RUBY_KIND(env[2]);
	if (!(env[2] & 1) || !ruby_is_kind(kind))
		return RUNTIME_REASON_INCONSISTENT;
	if (kind == RUBY_KIND_NATIVE)
		r = ruby_add_native(a, env[0]);
	else if (kind == RUBY_KIND_RESCUE && a->runtime.walk.flags & RUNTIME_WALK_HANDLERS)
		ruby_handler(a, o);
	else if (kind != RUBY_KIND_IFUNC && kind != RUBY_KIND_DUMMY)
		r = ruby_add(a, o);
	if (r)
		return RUNTIME_REASON_INCONSISTENT;
	if (env[2] & RUBY_FINISH)
		segment_end(a, 0);
	return 0;
}

/* As runtime_steps. */
static __always_inline int ruby_steps(struct unwind_area *a)
{
	struct runtime_state *r = &a->runtime;

	ROLLED
	for (int k = 0; k < RUNTIME_STEPS_A_CALL; k++) {
		__u64 frame = r->cursor;
		int reason = RUNTIME_REASON_READ_FAULT;

		if (runtime_ends(r))
			return 0;
		if (!ruby_window(a, frame))
			reason = ruby_step(frame - a->state.window);
		if (reason) {
			r->part.reason = reason;
			return 0;
		}
		r->cursor = frame + r->walk.frame_bytes;
		if (r->cursor >= r->end)
			r->cursor = 0;
	}
	return 1;
}

#endif
