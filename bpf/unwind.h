/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The unwinder: one frame after another, find the mapping, find the row, step. Compiled for the kernel and
 * for the host (env.h says what differs).
 *
 * At sampling rates nothing is warm, so the code counts cache lines, not instructions: the stack is read in
 * windows of 1 KiB, the last mapping and its table are remembered, everything rare is in functions out of
 * line. State lives in the CPU's area; each function looks it up again, because before 6.x a global function
 * takes only scalars.
 */
#ifndef PROFLET_BPF_UNWIND_H
#define PROFLET_BPF_UNWIND_H

#include "bpf/hotspot.h"
#include "bpf/lua.h"
#include "bpf/luajit.h"
#include "bpf/memory.h"
#include "bpf/perl.h"
#include "bpf/runtime.h"
#include "bpf/v8.h"

#define FRAMES_A_CALL 4	 /* frames that one call of unwind_frames does */
#define FRAMES_A_COPY 32 /* of unwind_unroll */
#define LANES(x) ((x) * 0x0001000100010001ull)
#define LANE_TOPS LANES(0x8000ull)

/*
 * The rule of the row that covers page-relative offset `o`, as its eight bytes. Rows are u16 (offset << 8 |
 * rule); four are compared in one subtraction: with the top bit of each lane of the key set, the difference
 * keeps it exactly where row <= key. Lane 0 is the row before, so that it holds when no row of the page does.
 */
static __always_inline __u64 table_rule(struct segment *s, const struct unwind_state *t, __u64 o)
{
	__u64 page = o >> PAGE_SHIFT_ROWS, first = segment_u32(s, t->index + page * 4), rule;
	__u64 left = segment_u32(s, t->index + page * 4 + 4) - first, rows = 0, below = 0, lane = 0;
	__u64 key = LANES((o & 127) << 8 | 255) | LANE_TOPS;

	ROLLED
	for (int i = 0; i < (int)TABLE_ROW_STEPS; i++) {
		rows = segment_rows(s, t->rows + first * 2 - 2);
		below = (key - rows) & (LANE_TOPS & ~0xffffull);
		lane = LANES(below >> 15) >> 48;
		/* lane < 3 || left <= 3, as one branch: the verifier follows each of every round */
		if ((__s64)((lane - 3) | (left - 4)) < 0)
			break;
		first += 3;
		left -= 3;
	}
	if (left < 3) /* the rest are rows of the next page */
		lane = LANES(below << (48 - 16 * left) >> (48 - 16 * left) >> 15) >> 48;
	rule = rows >> (lane * 16) & 255;
	return segment_u64(s, t->rules + rule * 8);
}

/*
 * How many mappings of the list at `list` start at `ip` or below. starts[] is padded with ~0 to twice the
 * first step. Without a branch, which the verifier would follow both ways in each round: the top bit of a
 * difference says which is less, as the addresses of mappings have none.
 */
static __always_inline __u64 list_search(struct segment *s, __u64 list, __u64 ip)
{
	__u64 i = 0;

	ROLLED
	for (__u32 step = segment_u32(s, list + 4), k = 0; step && k < LIST_SEARCH_STEPS + 1;
	     step >>= 1, k++) {
		__u64 start = segment_u64(s, list + sizeof(struct mapping_list) + (i + step) * 8 - 8);

		i += step & ((((ip - start) | start) >> 63) - 1);
	}
	return i;
}

/* The ending of a walk that has reached the outermost frame. */
static __always_inline int unwind_root(const struct unwind_area *a)
{
	return a->record.flags & SAMPLE_CALLER_OMITTED ? ENDING_CALLER_OMITTED : ENDING_ROOT;
}

/*
 * The ending at return address 0. Only a row proves that a frame is the outermost; or that it ends where the
 * program's stack began: the entry point has jumped there, as musl's does on arm64.
 */
static __always_inline int ending_without_return(const struct unwind_area *a)
{
	if (a->state.fallback)
		return a->state.fallback;
	return a->state.sp == env_start_stack() ? unwind_root(a) : ENDING_NO_ROOT;
}

/* Makes the mapping of state.ip, with its table, the current one. NEXT_FRAMES, or the ending. */
UNWIND_FN int unwind_mapping(void)
{
	struct unwind_area *a = env_area();
	struct unwind_state *t;
	struct segment *s;
	struct mapping_entry *m;
	__u64 list, ip, at, i;
	__u32 ref;
	__u16 generation;

	if (!a)
		return ENDING_NO_PROCESS;
	t = &a->state;
	s = env_segment(ref_segment(t->list));
	if (!s)
		return ENDING_NO_PROCESS;
	list = ref_offset(t->list);
	ip = t->ip;
	if (ip == ~0ull)
		return ending_without_return(a);
	i = list_search(s, list, ip);
	t->length = 0;
	if (!i)
		return t->fallback ?: ENDING_NO_MAPPING;
	at = list + segment_u32(s, list + 8) + (i - 1) * sizeof(struct mapping_entry);
	BOUND(at, SEGMENT_MASK_32);
	m = (struct mapping_entry *)(s->bytes + at);
	if (ip >= m->end)
		return t->fallback ?: ENDING_NO_MAPPING;
	t->start = m->start;
	t->length = m->end - m->start;
	t->bias = m->bias;
	t->tag = (__u64)m->file << FRAME_VA_BITS;
	generation = m->generation;
	t->n_pages = 0;
	t->segment = 0;
	ref = *(volatile __u32 *)&m->table;
	t->pending = ref == TABLE_PENDING || ref == TABLE_REFUSED ? ref : 0;
	if (ref > TABLE_REFUSED) {
		s = env_segment(ref_segment(ref));
		if (!s)
			return ENDING_NO_TABLE;
		at = ref_offset(ref);
		if ((__u16)segment_u32(s, at + BLOCK_GENERATION) != generation) {
			t->pending = TABLE_PENDING; /* another block by now; user space knows where it is */
			return NEXT_FRAMES;
		}
		t->segment = ref_segment(ref);
		t->table_va = segment_u64(s, at);
		t->n_pages = segment_u32(s, at + 8);
		t->index = segment_u32(s, at + 12);
		t->rows = segment_u32(s, at + 16);
		t->rules = at + sizeof(struct unwind_table);
	}
	return NEXT_FRAMES;
}

/* The caller is the next frame, which a return address leads to. */
static __always_inline void enter_caller(struct unwind_state *t, __u64 ra, __u64 sp, __u64 fp)
{
	t->ip = ra - 1;
	t->sp = sp;
	t->fp = fp;
	t->innermost = 0;
	t->interrupted = 0;
	t->fallback = 0;
}

/*
 * Steps by the chain of frame records, where no row says better. `reason` is the ending if the chain is not
 * sane; the caller's stack pointer is `bytes` above the record.
 */
static __always_inline int step_frame_pointer(struct unwind_area *a, int reason, __s64 bytes)
{
	struct unwind_state *t = &a->state;
	__u64 fp = t->fp, caller, ip;

	if (!fp) /* the ABI's mark of the outermost frame, but compilers use the register as they like */
		return ENDING_NO_ROOT;
	if (fp & 7)
		return reason;
	if (fp < t->sp && t->switches++)
		return reason;
	window_around(a, fp + FRAME_RECORD_RA);
	if (stack_word(a, fp, &caller) || stack_word(a, fp + FRAME_RECORD_RA, &ip))
		return reason;
	ip = arch_strip_ip(ip, a->ip_signature);
	if (!ip)
		return ENDING_NO_ROOT;
	enter_caller(t, ip, fp + bytes, caller);
	t->fallback = reason;
	return NEXT_FRAMES;
}

/*
 * Out of a signal handler: the kernel's frame has every register of the interrupted code, so that its rule is
 * that of an innermost frame. The window serves as the buffer.
 */
static __always_inline int step_signal(struct unwind_area *a)
{
	struct unwind_state *t = &a->state;
	const __u64 *words = (const __u64 *)a->window;

	if (t->signals++ >= SIGNALS_MAX)
		return ENDING_BAD_CFA;
	t->window_len = 0;
	if (env_read_user(a->window, SIGNAL_WORDS * 8, t->sp + SIGNAL_REGISTERS))
		return ENDING_READ_FAULT;
#define X(number, word) t->regs[number] = words[word];
	SIGNAL_FRAME(X)
#undef X
	t->sp = t->regs[REGISTER_SP];
	t->fp = t->regs[REGISTER_FP];
	t->ip = t->regs[REGISTER_IP]; /* the interrupted instruction itself, not a return address */
	t->innermost = 1;
	t->have_regs = 1;
	t->n_before = t->n + 1;
	t->fallback = 0;
	return NEXT_FRAMES;
}

/*
 * Whether the frame without a row is a trampoline out of a signal handler (musl's has no call-frame
 * information): by its code, which is read only where a ucontext may lie at sp, with few flags and no link.
 */
static __always_inline int is_trampoline(struct unwind_area *a)
{
	struct unwind_state *t = &a->state;
	__u64 flags, link, code;

	if (t->innermost || stack_word(a, t->sp + SIGNAL_FLAGS, &flags) || flags > SIGNAL_FLAGS_MAX ||
	    stack_word(a, t->sp + SIGNAL_LINK, &link) || link)
		return 0;
	if (env_read_user(&code, sizeof code, t->ip + 1))
		return 0;
	return arch_is_sigreturn(code);
}

/*
 * Whether a return address follows a call. Code that cannot be read does not speak against it, and an address
 * in no mapping ends the walk anyway; `strict`: it does, as there is another rule.
 */
static __always_inline int is_behind_call(const struct unwind_area *a, __u64 ra, int strict)
{
	__u64 code;

	ra = arch_strip_ip(ra, a->ip_signature);
	if (!ra || env_read_user(&code, sizeof code, ra - sizeof code))
		return !strict;
	return arch_follows_call(code);
}

/* The same of the return address that the rule leads to. */
static __always_inline int follows_call(struct unwind_area *a, int strict)
{
	struct unwind_state *t = &a->state;
	__u64 ra, reg = t->rule.reg;

	BOUND(reg, REGISTERS - 1);
	if (t->rule.kind & UNWIND_RA_REG)
		ra = t->regs[reg];
	else if (stack_word(a, t->cfa + arch_ra_offset(t->rule_bits), &ra))
		return 1; /* has an ending of its own, as has 0 */
	return is_behind_call(a, ra, strict);
}

/*
 * Steps from the innermost frame where it has no frame record yet, or any more, of code that keeps them. -1:
 * it has one, as far as the code says.
 */
static __always_inline int step_around_record(struct unwind_area *a)
{
	struct unwind_state *t = &a->state;
	__u64 code, ip;
	int at;

	if (!t->innermost || env_read_user(&code, sizeof code, t->ip))
		return -1;
	at = arch_record_at(code);
	if (at < 0)
		return -1;
	if (stack_word(a, t->sp + at, &ip) || (at && stack_word(a, t->sp, &t->fp)))
		return ENDING_READ_FAULT;
	t->ip = arch_strip_ip(ip, a->ip_signature) - 1;
	t->sp += at + 8;
	t->innermost = 0;
	t->interrupted = 0;
	t->fallback = ENDING_NO_ROW;
	return NEXT_FRAMES;
}

/*
 * The step from the sample's own frame may be wrong, as user space will find out: its registers and its stack
 * go into the record. 0: it is another frame.
 */
static __always_inline int keep_start(struct unwind_area *a)
{
	struct unwind_state *t = &a->state;

	if (t->n != a->record.n_kernel)
		return 0;
	a->record.flags |= SAMPLE_FROM_START;
	t->first_ip = t->ip;
	t->first_sp = t->sp;
	t->first_fp = t->fp;
	return 1;
}

/* Adds to the frame which code it is. The caller adds the frame itself. */
static __always_inline void note_code(struct unwind_area *a, __u64 code)
{
	__u64 n = a->state.n + 1;

	if (a->state.ring || n >= a->state.limit)
		return;
	BOUND(n, RECORD_FRAMES - 1);
	a->frames[n] = frame_native(FRAME_TAG_CODE, code);
	a->state.n = (__u32)n;
}

/* Whether the row, which has led to state.cfa, says the same of the frame: so many bytes are left of it. */
static __always_inline int row_agrees(const struct unwind_state *t, __u64 bytes)
{
	__u32 fp = t->rule.kind & ~UNWIND_CFA_MASK;

	if (t->cfa != t->sp + bytes || arch_ra_offset(t->rule_bits) != -8)
		return 0;
	return bytes == 8 ? !fp : fp == UNWIND_FP_CFA << UNWIND_FP_SHIFT && t->rule.fp == HOTSPOT_SAVED_FP;
}

/*
 * Of the sample's own frame, a method's: what is left of it, by the instruction that is about to run. 0: that
 * is not certain.
 */
static __always_inline __u64 compiled_left(const struct unwind_state *t, __u64 code)
{
	__u64 bytes;
	int left;

	if (!(code & FRAME_CODE_SURE) || env_read_user(&bytes, sizeof bytes, t->ip))
		return 0;
	left = arch_frame_left(bytes);
	if (!left)
		return (__u64)frame_code_words(code) * 8;
	return left > 0 ? (__u64)left : 0;
}

/* Steps from a method's frame of which so many bytes are left. NEXT_FRAMES, ENDING_NO_ROOT; else a fault. */
static __always_inline int step_by_size(struct unwind_area *a, __u64 bytes, __u64 code)
{
	struct unwind_state *t = &a->state;
	__u64 cfa = t->sp + bytes, ra, fp = t->fp;

	if (stack_word(a, cfa - 8, &ra) || (bytes > 8 && stack_word(a, cfa + HOTSPOT_SAVED_FP * 8, &fp)))
		return ENDING_READ_FAULT;
	note_code(a, (code & (FRAME_CODE_SURE | ((1u << FRAME_CODE_ID_BITS) - 1))) |
			     bytes / 8 << FRAME_CODE_ID_BITS | FRAME_CODE_BY_SIZE);
	ra = arch_strip_ip(ra, a->ip_signature);
	if (!ra)
		return ENDING_NO_ROOT;
	enter_caller(t, ra, cfa, fp);
	return NEXT_FRAMES;
}

/* The same of the sample's own, or an interrupted one: it may not stand. As step_compiled(). */
static __always_inline int step_own(struct unwind_area *a, __u64 code, int has_row)
{
	struct unwind_state *t = &a->state;
	__u64 left = t->n == a->record.n_kernel ? compiled_left(t, code) : 0, ra;
	__u64 bytes = left ?: (__u64)frame_code_words(code) * 8;

	code = left ? code : code & ~FRAME_CODE_SURE;
	if (has_row) {
		if (t->n == a->record.n_kernel && row_agrees(t, bytes))
			return step_by_size(a, bytes, code);
		keep_start(a);
		note_code(a, code & ~FRAME_CODE_SURE);
		return -1;
	}
	if (!left && (stack_word(a, t->sp + bytes - 8, &ra) || !is_behind_call(a, ra, 1) || !keep_start(a)))
		return ENDING_NO_TABLE;
	return step_by_size(a, bytes, code);
}

/* Whether the frame before is that of a method, compiled or interpreted. */
static __always_inline int called_a_method(const struct unwind_area *a)
{
	__u64 before = (__u64)a->state.n - 1;
	__u32 tag;

	if (a->state.n == a->record.n_kernel || a->state.ring)
		return 0;
	BOUND(before, RECORD_FRAMES - 1);
	tag = frame_tag(a->frames[before]);
	return tag == FRAME_TAG_CODE || tag == FRAME_TAG_BYTECODE;
}

/*
 * A method that HotSpot has compiled. The frame of one that has called another method stands, and its size is
 * known. One that has called a stub may have pushed more for it: a row says so. Of the innermost one, its
 * instruction may say how much of it is left; else a row does, or the step is tried. As unwind_rare();
 * ENDING_NO_TABLE: there is nothing to go by.
 */
UNWIND_FN int step_compiled(__u64 code, int has_row)
{
	struct unwind_area *a = env_area();
	__u64 bytes = (__u64)frame_code_words(code) * 8;

	if (!a || (!bytes && !has_row))
		return ENDING_NO_TABLE;
	if (!bytes) {
		note_code(a, code);
		return -1;
	}
	window_around(a, a->state.sp + bytes - 8);
	if (a->state.innermost)
		return step_own(a, code, has_row);
	if (called_a_method(a))
		return step_by_size(a, bytes, code | FRAME_CODE_SURE);
	if (!has_row || row_agrees(&a->state, bytes))
		return step_by_size(a, bytes, code);
	note_code(a, code);
	return -1;
}

/* Code without a row, or without a table. */
static __always_inline int step_without_row(struct unwind_area *a)
{
	struct unwind_state *t = &a->state;
	int refused = t->pending == TABLE_REFUSED || t->rule.cfa == UNWIND_NONE_REFUSED, next;
	int reason = t->n_pages ? ENDING_NO_ROW : ENDING_NO_TABLE;
	int is_none = (t->rule.kind & UNWIND_CFA_MASK) == UNWIND_CFA_NONE; /* else the row was not right */

	if (t->heaps_at && !(refused && t->innermost)) {
		next = step_compiled(hotspot_code(), 0);
		if (next != ENDING_NO_TABLE)
			return next;
	}
	if (luajit_is_trace(a) && luajit_step_trace())
		return NEXT_FRAMES;
	if (v8_is_compiled(a) && (refused || !t->innermost || !is_none)) {
		next = step_around_record(a);
		if (next >= 0)
			return next;
		reason = ENDING_NO_ROW;
	} else {
		if (refused)
			return ENDING_NO_ROW;
		if (t->pending ||
		    t->rule.cfa == UNWIND_NONE_PENDING) { /* the frame pointer would be a guess */
			t->pending = TABLE_PENDING;
			return ENDING_NO_TABLE;
		}
		if (is_trampoline(a))
			return step_signal(a);
	}
	return step_frame_pointer(a, reason, FRAME_RECORD_BYTES);
}

/* To the stack that the frame pointer is on. The row vouches for the step, down or up. */
static __always_inline int step_switch(struct unwind_area *a)
{
	int next;

	a->state.switches = 0;
	if (a->state.rule.reg)
		a->record.flags |= SAMPLE_CALLER_OMITTED;
	next = step_frame_pointer(a, ENDING_READ_FAULT, a->state.rule.cfa);
	a->state.fallback = 0;
	return next;
}

/* Adds to an interpreted frame its method, and bytecode. The caller adds the frame itself. */
static __always_inline void note_interpreted(struct unwind_area *a, __u64 method, __u64 bytecode)
{
	struct unwind_state *t = &a->state;
	__u64 n = t->n;

	BOUND(n, RECORD_FRAMES - 1);
	a->frames[n] = frame_runtime_head(RUNTIME_JVM, 0, method);
	if (t->ring || ++n >= t->limit)
		return;
	BOUND(n, RECORD_FRAMES - 1);
	a->frames[n] = frame_native(FRAME_TAG_BYTECODE, bytecode);
	t->n = (__u32)n;
}

static __always_inline int is_method(__u64 method)
{
	return method && !(method & 7) && !(method >> FRAME_VA_BITS);
}

/* A method that is about to be interpreted, and has no frame yet, or not all of one. */
static __always_inline int step_entered(struct unwind_area *a)
{
	struct unwind_state *t = &a->state;
	__u64 reg = t->rule.reg, ra, fp = t->fp, method, sender, where = t->sp + (__s64)t->rule.fp * 8;

	if (!t->innermost)
		return ENDING_NO_ROW;
	if (!t->have_regs)
		return NEXT_REGISTERS;
	BOUND(reg, REGISTERS - 1);
	ra = t->regs[reg];
	method = t->regs[REGISTER_JVM_METHOD];
	sender = t->regs[REGISTER_JVM_BYTECODE];
	if (t->rule.cfa == UNWIND_ENTERED_RECORD) {
		where = fp + FRAME_RECORD_RA;
		if (t->sp <= fp + JVM_FRAME_SENDER_SP && stack_word(a, fp + JVM_FRAME_SENDER_SP, &sender))
			return ENDING_NO_ROW;
		if (stack_word(a, fp, &fp))
			return ENDING_NO_ROW;
	}
	if (t->rule.cfa != UNWIND_ENTERED_REGISTER && stack_word(a, where, &ra))
		return ENDING_NO_ROW;
	ra = arch_strip_ip(ra, a->ip_signature);
	if (!ra || !is_method(method) || sender & 7 || sender - t->sp >= JVM_FRAME_BYTES_MAX)
		return ENDING_NO_ROW;
	enter_caller(t, ra, sender, fp);
	note_interpreted(a, method, 0);
	return NEXT_FRAMES;
}

/*
 * A method that HotSpot interprets. At the beginning of a method, and around a return, fp is still or
 * again that of another frame: then what the interpreter keeps below a record is not there, or the frame
 * is the caller's, which is stepped over in the right way.
 */
static __always_inline int step_interpreted(struct unwind_area *a)
{
	struct unwind_state *t = &a->state;
	__u64 fp = t->fp, method, last, sender, bytecode = 0;
	int next;

	if (t->rule.cfa >= 0)
		return step_entered(a);
	window_around(a, fp + JVM_FRAME_METHOD);
	/* below the stack pointer is what another frame has left there */
	if (fp & 7 || fp + JVM_FRAME_METHOD < t->sp || stack_word(a, fp + JVM_FRAME_METHOD, &method) ||
	    stack_word(a, fp + JVM_FRAME_LAST_SP, &last) || stack_word(a, fp + JVM_FRAME_SENDER_SP, &sender))
		return ENDING_NO_ROW;
	if (!is_method(method) || sender & 7 || sender + JVM_SENDER_BELOW - fp >= JVM_FRAME_BYTES_MAX)
		return ENDING_NO_ROW;
	if (last && fp - last >= JVM_FRAME_BYTES_MAX && 0 - last >= JVM_FRAME_BYTES_MAX)
		return ENDING_NO_ROW;
	if (t->innermost) {
		if (!t->have_regs)
			return NEXT_REGISTERS;
		bytecode = t->regs[REGISTER_JVM_BYTECODE];
	} else if (stack_word(a, fp + t->rule.cfa, &bytecode)) {
		return ENDING_NO_ROW;
	}
	next = step_frame_pointer(a, ENDING_NO_ROW, FRAME_RECORD_BYTES);
	if (next != NEXT_FRAMES)
		return next;
	if (sender > t->sp) /* a method handle's caller has pushed more than its callee gets */
		t->sp = sender;
	t->fallback = 0;
	note_interpreted(a, method, bytecode);
	return NEXT_FRAMES;
}

/* By a rule that may be wrong, from the register that it names. As unwind_rare(). */
static __always_inline int step_checked(struct unwind_area *a, __u64 base)
{
	int v8 = v8_is_compiled(a);
	__u64 code;

	a->state.cfa = base + (a->state.rule.cfa & ~UNWIND_CHECKED_MASK);
	if (a->state.rule.kind & UNWIND_RA_REG && a->state.innermost && !a->state.have_regs)
		return NEXT_REGISTERS;
	if (a->state.rule.cfa & UNWIND_CHECKED_CODE && a->state.heaps_at) {
		code = hotspot_code();
		if (code)
			return step_compiled(code, 1);
	}
	if (a->state.rule.cfa & UNWIND_CHECKED_TRUSTED)
		return -1;
	if (a->state.cfa & 7 || follows_call(a, v8))
		return -1;
	return v8 ? step_without_row(a) : ENDING_NO_CALL;
}

/* Whether there is the structure of an Erlang process: its stack pointer. */
static __always_inline int beam_stack(__u64 process, __u64 *ret)
{
	__u64 id;

	return !process || process & 7 || process >> 47 || env_read_user(&id, sizeof id, process) ||
	       (id & BEAM_PID_MASK) != BEAM_PID_TAG ||
	       env_read_user(ret, sizeof *ret, process + BEAM_PROCESS_STOP) || *ret & 7;
}

/*
 * The stack pointer of the process that has called C code with the stack pointer `t->sp` of its thread.
 * `saved`: below that, the callee saves the process's address; as long as it has not, the register has it.
 */
static __always_inline int beam_stack_kept(struct unwind_area *a, __s64 saved, __u64 *ret)
{
	struct unwind_state *t = &a->state;
	__u64 at = t->sp + saved, process = t->regs[BEAM_PROCESS_REGISTER];

	if (!t->innermost && at >= t->regs[REGISTER_SP] && stack_word(a, at, &process))
		return -1;
	return beam_stack(process, ret);
}

/* Whether a call of `target` enters what the frame is in. */
static __always_inline int beam_is_entry(const struct unwind_state *t, __u64 target)
{
	return t->ip - target - (__u64)(__s64)t->rule.fp + BEAM_ENTRY_BYTES <
	       BEAM_ENTRY_BYTES + BEAM_CALL_BYTES;
}

/*
 * Whether a frame that was searched for is that of the function: its record is where the frame pointer is,
 * or its return address follows a call of it.
 */
static __always_inline int beam_is_frame(struct unwind_area *a)
{
	struct unwind_state *t = &a->state;
	__u64 ra, code, target;

	if ((t->rule.kind & UNWIND_FP_MASK) == UNWIND_FP_CFA << UNWIND_FP_SHIFT)
		return t->fp == t->cfa + (__u64)((__s64)t->rule.fp * 8);
	if (!t->rule.fp || stack_word(a, t->cfa - 8, &ra) ||
	    env_read_user(&code, sizeof code, ra - sizeof code))
		return 0;
	if ((code >> 24 & 255) != 0xe8)
		return 0;
	target = ra + (__u64)(__s64)(__s32)(code >> 32);
	if (beam_is_entry(t, target))
		return 1;
	if (env_read_user(&code, sizeof code, target) || (code & 0xffff) != 0xe940)
		return 0; /* not by way of a jump that is nearer */
	target += 6 + (__u64)(__s64)(__s32)(code >> 16);
	return beam_is_entry(t, target);
}

/*
 * The same, if the callee does not save it, or is not known: what it calls may have saved it, or a copy, in
 * word `i` below the stack pointer. Only that process is taken whose stack has a frame of this function on
 * top. 1: it is not there; 0: nor is it further below; -1: state.cfa is set.
 */
UNWIND_FN int unwind_beam_word(__u32 i)
{
	struct unwind_area *a = env_area();
	struct unwind_state *t;
	__u64 at, process, sp;

	if (!a)
		return 0;
	t = &a->state;
	at = t->sp - 8 - (__u64)i * 8;
	if (at + 8 < t->regs[REGISTER_SP])
		return 0;
	if (at < t->regs[REGISTER_SP])
		process = t->regs[BEAM_PROCESS_REGISTER];
	else if (stack_word(a, at, &process))
		return 0;
	if (beam_stack(process, &sp))
		return 1;
	t->cfa = sp + (t->rule.cfa >> 16);
	return beam_is_frame(a) ? -1 : 1;
}

static __always_inline int step_kept_somewhere(void)
{
	int found = 1;

	ROLLED
	for (__u32 i = 1; i < BEAM_SEARCH_WORDS && found > 0; i++) /* the first one is a return address */
		found = unwind_beam_word(i);
	return found < 0 ? -1 : ENDING_NO_ROW;
}

/*
 * The function that schedules processes, on its thread's stack, which it has aligned: in the gap, there may
 * be return addresses of earlier calls.
 */
static __always_inline int step_aligned(struct unwind_area *a, __s64 off)
{
	struct unwind_state *t = &a->state;

	ROLLED
	for (int i = BEAM_ALIGNED - 1; i >= 0; i--) {
		t->cfa = t->sp + off + i * 16;
		if (follows_call(a, 1))
			return -1;
	}
	return ENDING_NO_ROW;
}

/*
 * BEAM: the frame is on the stack of an Erlang process, which runs C code on its thread's. As unwind_rare().
 */
static __always_inline int step_kept(struct unwind_area *a, __s64 saved, __s64 depth)
{
	struct unwind_state *t = &a->state;
	__u64 sp;
	int next;

	if (!t->have_regs)
		return NEXT_REGISTERS;
	t->switches = 0;
	if (!depth)
		return step_aligned(a, saved);
	if (!saved && !t->innermost) {
		next = step_kept_somewhere();
	} else {
		if (beam_stack_kept(a, saved, &sp))
			return ENDING_NO_ROW;
		t->cfa = sp + depth;
		next = follows_call(a, 1) ? -1 : ENDING_NO_CALL;
	}
	if (next < 0) /* of this stack, a copy of the sample's has nothing */
		a->record.flags &= ~SAMPLE_FROM_START;
	return next;
}

/*
 * The rare rules: computes state.cfa for state.rule, or steps itself. NEXT_REGISTERS, NEXT_FRAMES when the
 * whole step is done, an ending, or -1: cfa is set, go on with it.
 */
UNWIND_FN int unwind_rare(void)
{
	struct unwind_area *a = env_area();
	struct unwind_state *t;
	__u64 base, reg;
	__s64 low;
	__u32 cfa;

	if (!a)
		return ENDING_NO_PROCESS;
	t = &a->state;
	cfa = t->rule.kind & UNWIND_CFA_MASK;
	low = (__s16)t->rule.cfa;
	reg = t->rule.reg;
	BOUND(reg, REGISTERS - 1);
	if (!arch_has_rule(cfa))
		return ENDING_UNSUPPORTED_RULE;
	switch (cfa) {
	case UNWIND_CFA_ROOT:
		return unwind_root(a);
	case UNWIND_CFA_NONE:
		return step_without_row(a);
	case UNWIND_CFA_SWITCH:
		return step_switch(a);
	case UNWIND_CFA_SIGNAL:
		return step_signal(a);
	case UNWIND_CFA_INTERPRETED:
		return step_interpreted(a);
	case UNWIND_CFA_KEPT:
		return step_kept(a, low, t->rule.cfa >> 16);
	case UNWIND_CFA_SP_CHECKED:
	case UNWIND_CFA_FP_CHECKED:
		return step_checked(a, cfa == UNWIND_CFA_FP_CHECKED ? t->fp : t->sp);
	case UNWIND_CFA_PLT:
		t->cfa = arch_plt_cfa(t->ip, t->sp, t->rule.cfa);
		return -1;
	case UNWIND_CFA_DEREF_SP:
		base = t->sp + low;
		break;
	case UNWIND_CFA_DEREF_FP:
		base = t->fp + low;
		break;
	case UNWIND_CFA_REG:
	case UNWIND_CFA_DEREF_INDEX:
		if (!t->innermost)
			return ENDING_UNSUPPORTED_RULE;
		if (!t->have_regs)
			return NEXT_REGISTERS;
		if (cfa == UNWIND_CFA_REG) {
			t->cfa = t->regs[reg] + t->rule.cfa;
			return -1;
		}
		base = t->sp + t->regs[REGISTER_INDEX] * 8 + low;
		break;
	default:
		return ENDING_UNSUPPORTED_RULE;
	}
	if (stack_word(a, base, &base))
		return ENDING_READ_FAULT;
	t->cfa = base + (t->rule.cfa >> 16);
	return -1;
}

/* The return address of a frame that has not saved it. As unwind_rare_registers(). */
static __always_inline int return_address(struct unwind_area *a, __u64 *ret)
{
	struct unwind_state *t = &a->state;
	__u64 reg = t->rule.reg;

	if (!t->innermost) {
		if (!INTERRUPTED_RA || !t->interrupted || reg != REGISTER_RA)
			return ENDING_UNSUPPORTED_RULE;
		return stack_word(a, t->sp - INTERRUPTED_RA, ret) ? ENDING_READ_FAULT : NEXT_FRAMES;
	}
	if (!t->have_regs)
		return NEXT_REGISTERS;
	BOUND(reg, REGISTERS - 1);
	*ret = t->regs[reg];
	return NEXT_FRAMES;
}

/*
 * The frame pointer by UNWIND_FP_FP or undefined, and the return address from a register, with any frame
 * pointer: what the hot loop leaves out. Where the return address is in a register, state.cfa is replaced by
 * it (not yet minus 1).
 */
UNWIND_FN int unwind_rare_registers(void)
{
	struct unwind_area *a = env_area();
	struct unwind_state *t;
	__u64 ra = 0;

	if (!a)
		return ENDING_NO_PROCESS;
	t = &a->state;
	if (t->rule.kind & UNWIND_RA_REG) {
		int next = return_address(a, &ra);

		if (next != NEXT_FRAMES)
			return next;
	}
	if ((t->rule.kind & UNWIND_FP_MASK) == UNWIND_FP_FP << UNWIND_FP_SHIFT) {
		if (stack_word(a, t->fp + (__s64)t->rule.fp * 8, &t->fp))
			return ENDING_READ_FAULT;
	} else if ((t->rule.kind & UNWIND_FP_MASK) == UNWIND_FP_UNDEFINED << UNWIND_FP_SHIFT) {
		t->fp = 0;
	} else if ((t->rule.kind & UNWIND_FP_MASK) == UNWIND_FP_CFA << UNWIND_FP_SHIFT) {
		if (stack_word(a, t->cfa + (__s64)t->rule.fp * 8, &t->fp))
			return ENDING_READ_FAULT;
	}
	if (t->rule.kind & UNWIND_RA_REG)
		t->cfa = ra;
	return NEXT_FRAMES;
}

/* The frame [sp, cfa), at `ip`, reaches beyond the next marker. Returns its CFA, which LuaJIT may correct. */
static __always_inline __u64 tie_frame(struct unwind_area *a, __u64 ip, __u64 sp, __u64 cfa)
{
	struct unwind_state *t = &a->state;

	t->tie_ip = ip;
	t->tie_sp = sp;
	t->tie_cfa = cfa;
	/* not in there: eight functions can call each other */
	if (a->runtime.walk.shape == RUNTIME_SHAPE_VALUES)
		luajit_loop();
	else
		runtime_tie();
	return t->tie_cfa;
}

/* Unwinds up to FRAMES_A_CALL frames into the record. Returns how to go on, or the ending. */
UNWIND_FN int unwind_frames(void)
{
	struct unwind_area *a = env_area();
	struct unwind_state *t;
	struct segment *s;
	int next = NEXT_FRAMES;

	if (!a)
		return ENDING_NO_PROCESS;
	t = &a->state;
	s = env_segment(t->segment);
	if (!s)
		return ENDING_NO_TABLE;
	ROLLED
	for (int k = 0; k < FRAMES_A_CALL; k++) {
		__u64 ip = t->ip, va, o, rule, cfa, ra, at, n = t->n;
		__u32 kind, fallback = 0;

		if (ip - t->start >= t->length)
			return NEXT_MAPPING;
		if (n >= t->limit)
			return ENDING_DEPTH_LIMIT;
		va = ip - t->bias;
		BOUND(n, RECORD_FRAMES - 1);
		a->frames[n] = t->tag | (va & FRAME_VA_MASK);
		o = va - t->table_va;
		/* without table or row: rule 0 of nothing, kind NONE */
		rule = o >> PAGE_SHIFT_ROWS < t->n_pages ? table_rule(s, t, o) : (__u64)UNWIND_CFA_NONE << 48;
		kind = rule >> 48 & 255;
		if ((kind & UNWIND_CFA_MASK) > UNWIND_CFA_FP) {
			__u64 sp = t->sp;

			t->rule_bits = rule;
			next = unwind_rare();
			if (next == NEXT_REGISTERS)
				return next;
			if (next >= 0) { /* stepped, or ended: the frame counts either way */
				if (t->sp > t->next_marker)
					tie_frame(a, ip, sp, t->sp);
				t->n++;
				if (next != NEXT_FRAMES)
					return next;
				continue;
			}
			cfa = t->cfa;
		} else {
			cfa = (kind & 1 ? t->fp : t->sp) + (__s64)(__s32)rule;
		}
		/* a function that popped its return address into a register (vfork) has its CFA at sp */
		if (cfa - t->sp - !(kind & UNWIND_RA_REG) >= FRAME_BYTES_MAX || cfa & 7) {
			if (cfa & 7 || (kind & UNWIND_CFA_MASK) == UNWIND_CFA_SP || t->switches++) {
				t->n++;
				return ENDING_BAD_CFA;
			}
			a->record.flags &= ~SAMPLE_FROM_START; /* as in step_kept() */
			fallback = ENDING_BAD_CFA;
		}
		if (cfa > t->next_marker)
			cfa = tie_frame(a, ip, t->sp, cfa);
		ra = cfa + arch_ra_offset(rule);
		/* a frame with its return address in a register may lie on a page that is not there yet */
		if (ra - t->window + 7 >= t->window_len && window_fill(a, ra) && !(kind & UNWIND_RA_REG)) {
			t->n++;
			return ENDING_READ_FAULT;
		}
		at = ra - t->window;
		if (kind & (UNWIND_RA_REG | UNWIND_FP_FP << UNWIND_FP_SHIFT)) {
			t->rule_bits = rule;
			t->cfa = cfa;
			next = unwind_rare_registers();
			if (next != NEXT_FRAMES) {
				t->n += next != NEXT_REGISTERS;
				return next;
			}
		} else if (kind & UNWIND_FP_MASK) {
			__u64 where = cfa + ((__s64)(rule << 16) >> 48) * 8;

			if (stack_word(a, where, &t->fp)) {
				t->n++;
				return ENDING_READ_FAULT;
			}
		}
		ip = arch_strip_ip(kind & UNWIND_RA_REG ? t->cfa : window_word(a, at), a->ip_signature);
		t->n++;
		t->innermost = 0;
		if (INTERRUPTED_RA)
			t->interrupted = kind & UNWIND_RA_EXACT;
		t->fallback = fallback;
		t->sp = cfa;
		t->ip = ip - 1 + (kind >> 7);
	}
	return NEXT_FRAMES;
}

/*
 * Walks on beyond the limit: makes room for RING_FRAMES more frames. They go into a ring behind the record's
 * other words, so that the last ones are there when the walk ends. Call it at ENDING_DEPTH_LIMIT, and
 * unwind_omit at the end.
 */
UNWIND_FN int unwind_beyond_limit(void)
{
	struct unwind_area *a = env_area();
	struct unwind_state *t;

	if (!a)
		return 0;
	t = &a->state;
	if (t->ring) {
		t->laps++;
		t->n = t->ring;
	} else {
		t->ring = t->n;
		t->laps = 0;
		t->limit = t->n + RING_FRAMES;
	}
	t->n_before = N_BEFORE_NONE;
	return 0;
}

/* How many of the outermost frames the record has room for, beside the innermost ones and the mark. */
static __always_inline __u32 frames_outer(const struct unwind_area *a)
{
	__u32 limit = a->state.ring - a->record.n_kernel;

	return limit - user_frames_inner(limit) - 1;
}

/* Copies some of the outermost frames to their place in the record: from frame `i` of them on. */
UNWIND_FN int unwind_unroll(__u32 i)
{
	struct unwind_area *a = env_area();
	__u32 ring, outer, offset, mask;

	if (!a)
		return 0;
	ring = a->state.ring;
	outer = frames_outer(a);
	offset = a->state.n - ring - outer;
	/* in the first lap, the frames before the ring belong to the outermost ones, too */
	mask = a->state.laps ? RING_FRAMES - 1 : ~0u;
	ROLLED
	for (int k = 0; k < FRAMES_A_COPY && i < outer; k++, i++) {
		__u64 from = ring + ((offset + i) & mask), to = ring - outer + i;

		BOUND(from, RECORD_FRAMES - 1);
		BOUND(to, RECORD_FRAMES - 1);
		a->frames[to] = a->frames[from];
	}
	return 0;
}

/*
 * Ends a walk that went beyond the limit: keeps its innermost and its outermost frames (user_frames_inner);
 * if it was given up, all of the innermost ones. Returns the ending. The number of omitted frames includes
 * those that the record omitted before.
 */
UNWIND_FN int unwind_omit(int ending)
{
	struct unwind_area *a = env_area();
	struct unwind_state *t;
	__u64 omitted, mark;
	__u32 beyond;

	if (!a)
		return ending;
	t = &a->state;
	beyond = t->n - t->ring;
	if (ending == ENDING_DEPTH_LIMIT || !(beyond | t->laps)) {
		t->n = t->ring;
		return ending;
	}
	mark = t->ring - frames_outer(a) - 1;
	BOUND(mark, RECORD_FRAMES - 1);
	omitted = a->frames[mark];
	omitted = frame_tag(omitted) == FRAME_TAG_OMITTED ? frame_va(omitted) : 1;
	a->frames[mark] = frame_omitted(omitted + (__u64)t->laps * RING_FRAMES + beyond);
	a->record.flags |= SAMPLE_OMITTED;
	ROLLED
	for (__u32 i = 0; i < USER_FRAMES_MAX / 2; i += FRAMES_A_COPY)
		unwind_unroll(i);
	t->n = t->ring;
	/* of the frames beyond the limit, the record's last ones are left */
	if (t->n_before != N_BEFORE_NONE)
		t->n_before = t->n_before > mark + beyond ? t->n_before - beyond : N_BEFORE_NONE;
	return ending;
}

#endif
