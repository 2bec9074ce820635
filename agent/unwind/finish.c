// SPDX-License-Identifier: Apache-2.0
/*
 * A walk that stopped at an unsupported rule is repeated from its anchor: the last frame before that rule
 * whose registers are all known. That is the innermost frame, or one that a signal interrupted. From
 * there, the complete rule of each frame gives all registers of its caller that can be known, up to the
 * caller of the frame with the unsupported rule; then the walk continues as in the kernel. A frame without
 * a complete rule (Go, code without call-frame information) is stepped by the table, and only the stack
 * pointer and the frame pointer of its caller are known.
 *
 * When the stack at the anchor is not in the record, the frame with the unsupported rule is its own
 * anchor, and only its stack pointer and frame pointer are known.
 */
#include "agent/unwind/finish.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/elf/cfi/frame_rule.h"
#include "agent/proc/table.h"
#include "agent/unwind/arena.h"
#include "agent/unwind/list.h"
#include "agent/unwind/stack_mappings.h"
#include "agent/unwind/rules.h"
#include "bpf/unwind.h"

#define LIST_WHOLE_MAX 256u /* a process with more mappings gets a list of those that its stack needs */
/* Most frames beyond the limit, in RING_FRAMES: a frame takes at least 8 bytes, if the stack is no circle. */
#define LAPS_MAX (SAVED_STACK_MAX / 8 / RING_FRAMES)
/*
 * About 0.1 ms. Whoever makes a binary chooses how long the expressions of its rules run; those of compilers
 * and hand-written code run a dozen operations.
 */
#define WALK_OPERATIONS_MAX 32768u
#define FRAME_OPERATIONS 16u /* what a step by a complete rule counts for, beside those of its expressions */
#define OWN_SEGMENT SEGMENTS_MAX /* index of our own segment, after those of the arena */

/* A frame, and the registers that are known there. */
struct anchor {
	uint32_t n; /* frames in the record before it */
	uint64_t ip;
	struct frame_registers regs;
};

struct finisher {
	struct finisher_options options;
	struct rules *rules;
	struct segment *own;		/* holds the list of finisher_list; NULL until the first */
	const struct sample_view *view; /* during a walk */
	bool pending;			/* a complete rule may come */
	bool refused;			/* the cache has no room for a rule: the walk ends there */
	bool beyond;			/* its last read was of stack that the record has no copy of */
	uint32_t operations;		/* of expressions, that the walk may still run */
	struct anchor anchor;
	bool logged_costly;
	struct finisher_stats stats;
	struct runtime_part part; /* of the last walk */
	struct unwind_area area;
};

int finisher_new(struct finisher **ret, const struct finisher_options *options)
{
	struct finisher *f = calloc(1, sizeof *f);
	int r = 0;

	if (!f)
		return -ENOMEM;
	f->options = *options;
	if (f->options.user_frames > USER_FRAMES_MAX)
		f->options.user_frames = USER_FRAMES_MAX;
	if (options->binaries)
		r = rules_new(&f->rules, &(struct rules_options){.binaries = options->binaries,
								 .worker = options->worker,
								 .ready = options->ready,
								 .data = options->data});
	if (r < 0) {
		free(f);
		return r;
	}
	*ret = f;
	return 0;
}

void finisher_free(struct finisher *f)
{
	if (!f)
		return;
	rules_free(f->rules);
	free(f->own);
	free(f);
}

static struct segment *segment(void *data, __u32 index)
{
	struct finisher *f = data;

	if (index == OWN_SEGMENT)
		return f->own;
	return arena_segment(f->options.arena, index);
}

/* Reads the process's memory, as far as the record has saved it. */
static int read_stack(void *data, void *to, uint32_t bytes, uint64_t address)
{
	struct finisher *f = data;
	const struct saved_stack *saved = f->view->saved;
	uint64_t offset = address - saved->stack_address;

	f->beyond = address >= saved->stack_address &&
		    (offset > saved->stack_bytes || bytes > saved->stack_bytes - offset);
	if (f->beyond || address < saved->stack_address)
		return -EFAULT;
	for (uint64_t chunk = address / SAVED_STACK_CHUNK; chunk <= (address + bytes - 1) / SAVED_STACK_CHUNK;
	     chunk++)
		if (saved->holes >> ((chunk - saved->stack_address / SAVED_STACK_CHUNK) & 31) & 1)
			return -EFAULT;
	memcpy(to, f->view->stack + offset, bytes);
	return 0;
}

static int read_user(void *data, void *to, __u32 bytes, __u64 address)
{
	return read_stack(data, to, bytes, address);
}

static void anchor_all(struct anchor *a, uint32_t n, const __u64 *regs)
{
	a->n = n;
	a->ip = regs[REGISTER_IP];
	a->regs.known = REGISTERS_ALL;
	memcpy(a->regs.value, regs, sizeof a->regs.value);
}

/* Only stack pointer, frame pointer and return address are known. */
static void anchor_state(struct anchor *a, const struct unwind_state *t)
{
	a->n = t->n;
	a->ip = t->ip;
	a->regs.known = 1u << REGISTER_SP | 1u << REGISTER_FP | 1u << REGISTER_RA;
	a->regs.value[REGISTER_SP] = t->sp;
	a->regs.value[REGISTER_FP] = t->fp;
	a->regs.value[REGISTER_RA] = t->ip + 1;
}

/* Restores the segments of the runtime's frames: those tied to frames that are walked again are not. */
static void segments_restore(struct finisher *f, const struct sample_view *v)
{
	struct runtime_segment *segments = (struct runtime_segment *)(f->area.frames + RUNTIME_KEPT);
	struct runtime_state *r = &f->area.runtime;
	struct unwind_state *t = &f->area.state;

	r->part.n_segments = 0;
	r->next = 0;
	t->next_marker = NO_MARKER;
	if (!v->runtime)
		return;
	r->part = *v->runtime;
	memcpy(segments, v->segments, r->part.n_segments * sizeof *segments);
	for (uint32_t i = 0; i < r->part.n_segments; i++) {
		if (segments[i].native >= t->n - v->n_kernel)
			segments[i].native = RUNTIME_NOT_TIED;
		else
			r->next = i + 1;
	}
	/* Lua's markers are no places on the stack */
	if (r->part.runtime != RUNTIME_LUA && r->part.runtime != RUNTIME_LUAJIT &&
	    r->next < r->part.n_segments && segments[r->next].marker)
		t->next_marker = segments[r->next].marker;
}

static void segments_return(struct finisher *f, struct sample_view *ret)
{
	if (!ret->runtime)
		return;
	f->part = f->area.runtime.part;
	ret->runtime = &f->part;
	ret->segments = (const struct runtime_segment *)(f->area.frames + RUNTIME_KEPT);
}

/* A frame without a table or with an unsupported rule is in the record, and will be added again. */
uint16_t finisher_kept(const struct sample_view *v)
{
	return v->n_user -
	       ((v->ending == ENDING_NO_TABLE || v->ending == ENDING_UNSUPPORTED_RULE) && v->n_user);
}

static void state_restore(struct finisher *f, const struct sample_view *v, uint32_t list)
{
	const struct saved_stack *saved = v->saved;
	struct unwind_state *t = &f->area.state;
	uint32_t n = (uint32_t)v->n_kernel + v->n_user;

	memcpy(f->area.frames, v->frames, n * sizeof *v->frames);
	f->area.record.n_kernel = v->n_kernel;
	f->area.record.flags = v->caller_omitted && v->n_user ? SAMPLE_CALLER_OMITTED : 0;
	f->area.ip_signature = arch_ip_signature();
	memset(t, 0, sizeof *t);
	t->ip = saved->ip;
	t->sp = saved->sp;
	t->fp = saved->fp;
	t->list = list;
	t->n = (uint32_t)v->n_kernel + finisher_kept(v);
	t->limit = v->n_kernel + f->options.user_frames;
	t->innermost = saved->innermost;
	t->have_regs = 1;
	memcpy(t->regs, saved->regs, sizeof t->regs);
	if (saved->regs[REGISTER_SP] - saved->stack_address < saved->stack_bytes &&
	    saved->n_before <= v->n_user)
		anchor_all(&f->anchor, v->n_kernel + saved->n_before, saved->regs);
	else
		anchor_state(&f->anchor, t);
	t->n_before = f->anchor.n;
	segments_restore(f, v);
}

/* The loop of profiler.bpf.c without its bounds: each round adds a frame or ends. */
static int walk_to_limit(void)
{
	int next = NEXT_MAPPING;

	while (next >= ENDINGS) {
		if (next == NEXT_MAPPING)
			next = unwind_mapping();
		if (next == NEXT_FRAMES || next == NEXT_REGISTERS)
			next = unwind_frames();
	}
	return next;
}

/* Beyond the limit, each lap overwrites the frames of the one before: the anchor is the first of its own. */
static int walk(struct finisher *f)
{
	struct unwind_state *t = &f->area.state;
	int ending = walk_to_limit();

	while (ending == ENDING_DEPTH_LIMIT && (!t->ring || t->laps < LAPS_MAX)) {
		unwind_beyond_limit();
		anchor_state(&f->anchor, t);
		t->n_before = t->n;
		ending = walk_to_limit();
	}
	return ending;
}

/* The complete rule of a native or anonymous frame. */
static enum rules_answer rule_of(struct finisher *f, uint64_t frame, const struct frame_rule **ret)
{
	enum rules_answer answer = RULES_NONE;

	if (f->rules && frame_file(frame) != FILE_ANONYMOUS)
		answer = rules_get(f->rules, frame_file(frame), frame_va(frame), ret);
	f->pending |= answer == RULES_PENDING;
	f->refused |= answer == RULES_FULL;
	return answer;
}

/* True when the rule at which a table's step ended needs only a register that is known. */
static bool register_is_known(const struct unwind_state *t, const struct anchor *at)
{
	return (t->rule.kind & UNWIND_CFA_MASK) == UNWIND_CFA_REG && !(t->rule.kind & UNWIND_RA_REG) &&
	       t->rule.reg < REGISTERS && at->regs.known >> t->rule.reg & 1;
}

/* One step by the table, whose rule may need the registers. */
static int step_by_table(struct finisher *f, struct anchor *at)
{
	struct unwind_state *t = &f->area.state;
	uint32_t limit = t->limit;
	int next;

	t->innermost = at->regs.known == REGISTERS_ALL;
	memcpy(t->regs, at->regs.value, sizeof at->regs.value);
	t->limit = at->n + 1;
	next = unwind_frames();
	if (next == ENDING_UNSUPPORTED_RULE && !t->innermost && register_is_known(t, at)) {
		t->innermost = 1;
		t->n = at->n;
		next = unwind_frames();
	}
	t->limit = limit;
	if (next != ENDING_DEPTH_LIMIT && next < ENDINGS)
		return next;
	if (t->innermost) /* out of a signal handler */
		anchor_all(at, t->n, t->regs);
	else
		anchor_state(at, t);
	return NEXT_FRAMES;
}

static int step_by_rule(struct finisher *f, struct anchor *at, const struct frame_rule *rule)
{
	const struct frame_memory memory = {read_stack, f, &f->operations};
	struct unwind_state *t = &f->area.state;
	int r = frame_rule_step(rule, &memory, &at->regs);
	uint64_t ip;

	f->stats.rules_costly += r == -ELOOP;
	if (r < 0)
		return ENDING_UNSUPPORTED_RULE;
	if (r == 0 && at->regs.value[rule->sp_reg] > t->next_marker)
		tie_frame(&f->area, t->ip, t->sp, at->regs.value[rule->sp_reg]);
	at->n = ++t->n;
	ip = arch_strip_ip(at->regs.value[rule->ra_reg], f->area.ip_signature);
	if (r > 0)
		return unwind_root(&f->area);
	if (!ip)
		return ENDING_NO_ROOT;
	at->ip = ip - !rule->signal;
	t->ip = at->ip;
	t->sp = at->regs.value[rule->sp_reg];
	t->fp = at->regs.known >> REGISTER_FP & 1 ? at->regs.value[REGISTER_FP] : 0;
	t->fallback = 0;
	return NEXT_FRAMES;
}

/* Steps from the frame at `at`, which is in the record, to its caller. NEXT_FRAMES, or the ending. */
static int follow_frame(struct finisher *f, struct anchor *at)
{
	struct unwind_state *t = &f->area.state;
	const struct frame_rule *rule;
	uint64_t frame;
	int next;

	if (f->operations < FRAME_OPERATIONS) {
		f->stats.rules_costly++;
		return ENDING_UNSUPPORTED_RULE;
	}
	f->operations -= FRAME_OPERATIONS;
	if (t->ip - t->start >= t->length) {
		next = unwind_mapping();
		if (next != NEXT_FRAMES)
			return next;
	}
	frame = t->tag | ((t->ip - t->bias) & FRAME_VA_MASK);
	if (frame != f->area.frames[t->n]) {
		f->stats.disagreed++;
		return ENDING_UNSUPPORTED_RULE;
	}
	switch (rule_of(f, frame, &rule)) {
	case RULES_FOUND:
		return step_by_rule(f, at, rule);
	case RULES_NONE:
		return step_by_table(f, at);
	case RULES_PENDING:
	case RULES_FULL:
		break;
	}
	return ENDING_UNSUPPORTED_RULE;
}

/*
 * Steps from the anchor to the caller of the record's last frame, whose rule is unsupported. NEXT_MAPPING:
 * continue with that caller; ENDING_ROOT, ENDING_CALLER_OMITTED, ENDING_NO_ROOT: the frame has none; another
 * ending: it stays the last.
 */
static int follow(struct finisher *f)
{
	struct unwind_state *t = &f->area.state;
	struct anchor at = f->anchor;
	uint32_t end = t->n;
	struct stack_frames frames = {(const uint64_t *)f->area.frames, at.n, 0, end};
	struct stack_frame frame;
	const struct frame_rule *rule;
	int next = NEXT_FRAMES;

	while (stack_frames_next(&frames, &frame)) /* request all rules at once */
		if (frame.kind == STACK_FRAME_NATIVE)
			rule_of(f, frame.word, &rule);
	if (f->pending || f->refused)
		return ENDING_UNSUPPORTED_RULE;
	t->n = at.n;
	t->length = 0;
	t->ip = at.ip;
	t->sp = at.regs.value[REGISTER_SP];
	t->fp = at.regs.value[REGISTER_FP];
	t->fallback = 0;
	while (t->n < end && next == NEXT_FRAMES)
		next = follow_frame(f, &at);
	if (t->n != end || (next < ENDINGS && next != ENDING_ROOT && next != ENDING_NO_ROOT &&
			    next != ENDING_CALLER_OMITTED)) {
		t->n = end;
		return ENDING_UNSUPPORTED_RULE;
	}
	f->stats.followed++;
	f->anchor = at;
	t->n_before = at.n;
	t->innermost = 0;
	return next < ENDINGS ? next : NEXT_MAPPING;
}

/* Walks to the end, past unsupported rules where complete ones can be followed. */
static int walk_all(struct finisher *f)
{
	struct unwind_state *t = &f->area.state;
	int ending = walk(f);

	while (ending == ENDING_UNSUPPORTED_RULE) {
		int next;

		if (t->n_before != f->anchor.n) /* the walk came out of a signal handler */
			anchor_all(&f->anchor, t->n_before, t->regs);
		next = follow(f);
		if (next < ENDINGS)
			return next;
		ending = walk(f);
	}
	return ending;
}

bool finisher_walk(struct finisher *f, const struct sample_view *v, uint32_t list, struct sample_view *ret)
{
	const struct env env = {.area = &f->area, .segment = segment, .read_user = read_user, .data = f};
	bool final;

	f->view = v;
	f->pending = f->refused = f->beyond = false;
	f->operations = WALK_OPERATIONS_MAX;
	if (f->rules)
		rules_walk_begin(f->rules, clock_mono_ns());
	state_restore(f, v, list);
	env_current = &env;
	*ret = *v;
	ret->ending = (enum unwind_ending)walk_all(f);
	if (ret->ending == ENDING_READ_FAULT && f->beyond)
		ret->ending = ENDING_NOT_SAVED;
	if (f->area.state.ring)
		unwind_omit(ret->ending);
	env_current = NULL;
	f->view = NULL;
	ret->n_user = (uint16_t)(f->area.state.n - v->n_kernel);
	ret->frames = (const uint64_t *)f->area.frames;
	segments_return(f, ret);
	ret->omitted = f->area.state.ring ? sample_find_omitted(ret) : v->omitted;
	ret->saved = NULL;
	ret->stack = NULL;
	if (f->stats.rules_costly && !f->logged_costly)
		log_warn("process %u: to follow its call-frame information takes too long: its stacks end "
			 "there; "
			 "counted from now on",
			 v->pid);
	f->logged_costly = f->stats.rules_costly != 0;
	f->pending = f->pending && !f->refused; /* without all rules there is no point in waiting for some */
	f->stats.not_followed += !f->pending && ret->ending == ENDING_UNSUPPORTED_RULE;
	final = !f->pending && !(ret->ending == ENDING_NO_TABLE && f->area.state.pending) &&
		!(ret->ending == ENDING_NO_MAPPING && !f->area.state.fallback);
	if (f->rules)
		rules_walk_end(f->rules, !final);
	return final;
}

uint64_t finisher_address(const struct finisher *f)
{
	return f->area.state.ip;
}

void finisher_forget(struct finisher *f, uint32_t file)
{
	if (f->rules)
		rules_forget(f->rules, file);
}

void finisher_stats(const struct finisher *f, struct finisher_stats *ret)
{
	struct rules_stats rules = {0};

	if (f->rules)
		rules_stats(f->rules, &rules);
	*ret = f->stats;
	ret->rules = rules.found;
	ret->no_rules = rules.none - rules.failed;
	ret->rules_failed = rules.failed;
	ret->rules_refused = rules.refused;
}

/* The entries of all mappings; of a long list, only of the mappings that the walk can need. */
static int entries_make(struct list_entries *ret, const struct proc_maps *maps, const struct sample_view *v,
			const struct unwind_tables *tables)
{
	_cleanup_free_ const struct proc_mapping **found = NULL;
	const struct proc_mapping *any;
	size_t n;
	int r;

	if (maps->n <= LIST_WHOLE_MAX || !v->saved)
		return list_entries_make(ret, maps, tables);
	r = stack_mappings_find(maps, v, &found, &n);
	if (r < 0)
		return r;
	any = proc_maps_at(maps, 0); /* a list has at least one entry */
	return list_entries_make_some(ret, n ? found : &any, n ?: 1, maps->code, tables);
}

uint32_t finisher_list(struct finisher *f, const struct sample_view *v, const struct proc_maps *maps,
		       const struct unwind_tables *tables)
{
	_cleanup_(list_entries_fini) struct list_entries l = {0};
	size_t most = list_capacity(SEGMENT_BYTES);

	if (entries_make(&l, maps, v, tables) < 0 || !l.n)
		return 0;
	if (!f->own)
		f->own = calloc(1, sizeof *f->own);
	if (!f->own)
		return 0;
	list_write(f->own->bytes, l.entries, l.n < most ? l.n : most, 0, 0);
	return OWN_SEGMENT << REF_OFFSET_BITS;
}

bool finisher_rule(struct finisher *f, uint32_t list, uint64_t address, struct unwind_rule *ret)
{
	const struct env env = {.area = &f->area, .segment = segment, .read_user = read_user, .data = f};
	struct unwind_state *t = &f->area.state;
	struct segment *s = NULL;
	uint64_t o, bits;

	memset(t, 0, sizeof *t);
	t->list = list;
	t->ip = address;
	env_current = &env;
	if (unwind_mapping() == NEXT_FRAMES)
		s = env_segment(t->segment);
	o = address - t->bias - t->table_va;
	if (s && o >> PAGE_SHIFT_ROWS < t->n_pages) {
		bits = table_rule(s, t, o);
		memcpy(ret, &bits, sizeof *ret);
	} else {
		s = NULL;
	}
	env_current = NULL;
	return s != NULL;
}

void finisher_cut(struct finisher *f, const struct sample_view *v, uint16_t n, uint64_t next,
		  struct sample_view *ret)
{
	uint32_t have = (uint32_t)v->n_kernel + n;

	memmove(f->area.frames, v->frames, have * sizeof *v->frames);
	if (next)
		f->area.frames[have] = next;
	*ret = *v;
	ret->n_user = (uint16_t)(n + (next != 0));
	ret->omitted = 0; /* a stack is cut before them, see unwind_frames_valid() */
	ret->frames = (const uint64_t *)f->area.frames;
	ret->ending = ENDING_OUTDATED;
	ret->saved = NULL;
	ret->stack = NULL;
}
