// SPDX-License-Identifier: Apache-2.0
/*
 * Assembly is often written without call-frame directives: codecs (nasm has no usable ones), the start-up
 * code of the C compiler, embedded interpreters. So between the FDEs lie functions whose frames only the
 * instructions show. From the entry of a function, where rsp is 8 below the CFA, every path through it is
 * followed (flow.h).
 *
 * That an address is an entry is a guess: a function may begin at an aligned address behind padding, or
 * behind an instruction that does not continue. Rows are written only if the guess is proven: each path must
 * end in a `ret`, or in a jump out of the gap, with rsp and rbp as at entry; where paths meet they must
 * agree; and all bytes on them must be instructions. If the guess were wrong by any number of bytes, the
 * `ret` would not fit. Functions that jump into each other form one component, and a contradiction in one of
 * them discards the rows of all.
 */
#include "agent/elf/code/asmrows.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/elf/cfi/row_rule.h"
#include "agent/elf/code/flow.h"
#include "agent/elf/code/gaps.h"
#include "agent/elf/code/x86.h"
#include "agent/elf/file/elf_image.h"

#define ENTRY_ALIGN 16
#define NO_STATE 0

/* State of an offset at which an instruction begins. */
struct place {
	uint32_t state; /* index in states[]; NO_STATE: no path has come here */
	uint32_t component;
	uint8_t len; /* length of the instruction */
	bool queued;
};

struct component {
	uint32_t parent; /* union-find: itself in the root of a tree */
	uint32_t entry;	 /* the lowest of its guessed entries */
	bool bad, left;	 /* a contradiction was found; a path ends as it must */
	bool cut;	 /* a path leaves the bytes at hand */
};

struct sweep {
	const uint8_t *code;
	uint64_t va;
	uint32_t n;
	struct place *places;
	struct flow_state *states; /* [0] is unused */
	size_t n_states, states_cap;
	struct component *components;
	size_t n_components, components_cap;
	uint32_t *queue; /* offsets whose instruction is to be followed */
	size_t n_queue;
	uint32_t *calls; /* offsets that are called */
	size_t n_calls;
	bool no_memory;
};

static void sweep_fini(struct sweep *s)
{
	free(s->places);
	free(s->states);
	free(s->components);
	free(s->queue);
	free(s->calls);
}

static uint32_t state_add(struct sweep *s, const struct flow_state *state)
{
	/* usually the state of the previous instruction */
	if (s->n_states > 1 && memcmp(&s->states[s->n_states - 1], state, sizeof *state) == 0)
		return (uint32_t)s->n_states - 1;
	if (array_reserve(&s->states, &s->states_cap, s->n_states + 1, sizeof *s->states) < 0) {
		s->no_memory = true;
		return NO_STATE;
	}
	s->states[s->n_states] = *state;
	return (uint32_t)s->n_states++;
}

static uint32_t component_add(struct sweep *s, uint32_t entry)
{
	if (array_reserve(&s->components, &s->components_cap, s->n_components + 1, sizeof *s->components) <
	    0) {
		s->no_memory = true;
		return 0;
	}
	s->components[s->n_components] =
		(struct component){.parent = (uint32_t)s->n_components, .entry = entry};
	return (uint32_t)s->n_components++;
}

static struct component *root_of(struct sweep *s, uint32_t c)
{
	while (s->components[c].parent != c) {
		s->components[c].parent = s->components[s->components[c].parent].parent;
		c = s->components[c].parent;
	}
	return &s->components[c];
}

static void join(struct sweep *s, uint32_t a, uint32_t b)
{
	struct component *x = root_of(s, a), *y = root_of(s, b);

	if (x == y)
		return;
	y->parent = x->parent;
	x->entry = x->entry < y->entry ? x->entry : y->entry;
	x->bad |= y->bad;
	x->left |= y->left;
	x->cut |= y->cut;
}

static void spoil(struct sweep *s, uint32_t component)
{
	root_of(s, component)->bad = true;
}

/* A path of `component` comes to `off` with the state of this index. */
static void arrive(struct sweep *s, uint32_t component, uint64_t off, uint32_t state)
{
	struct place *p = &s->places[off];
	bool changed = true;

	if (p->state == NO_STATE) {
		p->component = component;
		p->state = state;
	} else {
		struct flow_state both = s->states[p->state];

		join(s, p->component, component);
		if (p->state == state)
			return;
		if (!flow_meet(&both, &s->states[state], &changed)) {
			spoil(s, component);
			return;
		}
		if (changed)
			p->state = state_add(s, &both);
	}
	if (changed && !p->queued && p->state != NO_STATE) {
		p->queued = true;
		s->queue[s->n_queue++] = (uint32_t)off;
	}
}

/* Follows a jump to `target`. Outside the gap, it is a tail call of another function. */
static void go(struct sweep *s, uint32_t component, int64_t target, uint32_t state)
{
	if (target >= 0 && target < s->n) {
		arrive(s, component, (uint64_t)target, state);
	} else if (flow_at_entry(&s->states[state])) {
		root_of(s, component)->left = true;
	} else {
		root_of(s, component)->cut |= target >= s->n;
		spoil(s, component);
	}
}

static void go_on(struct sweep *s, const struct place *p, const struct x86_insn *insn, int64_t next)
{
	uint32_t index = p->state;

	if (!flow_ignores(&s->states[index], insn)) {
		struct flow_state state = s->states[index];

		if (!flow_step(&state, insn)) {
			spoil(s, p->component);
			return;
		}
		index = state_add(s, &state);
	}
	if (next < s->n) {
		arrive(s, p->component, (uint64_t)next, index);
	} else {
		root_of(s, p->component)->cut = true;
		spoil(s, p->component);
	}
}

static void note_call(struct sweep *s, uint32_t target)
{
	if (s->places[target].state == NO_STATE && s->n_calls < s->n / 8)
		s->calls[s->n_calls++] = target;
}

static void follow(struct sweep *s, uint32_t off)
{
	struct place *p = &s->places[off];
	struct x86_insn insn = x86_decode(s->code + off, s->n - off);
	const int64_t next = (int64_t)off + insn.len, target = next + insn.disp;

	p->len = insn.len;
	if (x86_sigreturn(s->code + off, s->n - off)) { /* a signal trampoline, whose frame the kernel made */
		spoil(s, p->component);
		return;
	}
	if (!insn.len) {
		root_of(s, p->component)->cut |= s->n - off < X86_MAX_BYTES;
		spoil(s, p->component);
		return;
	}
	switch (insn.op) {
	case X86_RETURN:
		if (flow_at_entry(&s->states[p->state]))
			root_of(s, p->component)->left = true;
		else
			spoil(s, p->component);
		return;
	case X86_JUMP:
		go(s, p->component, target, p->state);
		return;
	case X86_TRAP:
	case X86_JUMP_FAR_AWAY: /* a tail call or a jump table: its targets are not followed */
		return;
	case X86_BRANCH:
		go(s, p->component, target, p->state);
		break;
	case X86_CALL:
		if (target >= 0 && target < s->n)
			note_call(s, (uint32_t)target);
		else
			insn.op = X86_CALL_FAR_AWAY; /* a function outside of these bytes */
		break;
	default:
		break;
	}
	go_on(s, p, &insn, next);
}

static void explore(struct sweep *s, uint32_t entry)
{
	const struct flow_state state = flow_entry();
	uint32_t component = component_add(s, entry), index = state_add(s, &state);

	if (s->no_memory)
		return;
	arrive(s, component, entry, index);
	while (s->n_queue && !s->no_memory) {
		uint32_t off = s->queue[--s->n_queue];

		s->places[off].queued = false;
		if (!root_of(s, s->places[off].component)->bad)
			follow(s, off);
	}
	while (s->n_queue)
		s->places[s->queue[--s->n_queue]].queued = false;
}

/* The next offset at which a function may begin, or at which an instruction is known. */
static uint32_t next_place(const struct sweep *s, uint32_t off)
{
	do
		off++;
	while (off < s->n && s->places[off].state == NO_STATE && (s->va + off) % ENTRY_ALIGN != 0);
	return off;
}

static void sweep_code(struct sweep *s)
{
	uint32_t at = 0;

	while (at < s->n && !s->no_memory) {
		const struct place *p = &s->places[at];

		if (p->state != NO_STATE) {
			at += p->len ?: 1;
			continue;
		}
		at = x86_padding(s->code, s->n, at);
		if (at >= s->n || s->places[at].state != NO_STATE)
			continue;
		if ((s->va + at) % ENTRY_ALIGN != 0) {
			at = next_place(s, at);
			continue;
		}
		explore(s, at);
		while (s->n_calls && !s->no_memory) {
			uint32_t called = s->calls[--s->n_calls];

			if (s->places[called].state == NO_STATE)
				explore(s, called);
		}
	}
}

static bool is_proven(struct sweep *s, uint32_t off)
{
	const struct component *c;

	if (s->places[off].state == NO_STATE || !s->places[off].len)
		return false;
	c = root_of(s, s->places[off].component);
	return !c->bad && c->left;
}

/* An instruction that extends beyond `end` is analysed again with the next bytes. */
static bool is_known(struct sweep *s, uint32_t off, uint32_t end)
{
	return off < end && is_proven(s, off) && s->places[off].len <= end - off;
}

/* Writes consecutive proven instructions from *off on as one span, and moves *off behind them. */
static int emit_proven(struct row_spans *spans, struct sweep *s, uint32_t *off, uint32_t end)
{
	const uint32_t start = *off;
	const size_t first = spans->out.n_rows;
	uint32_t last = NO_STATE;
	int r = 0;

	for (; is_known(s, *off, end) && r == 0; *off += s->places[*off].len) {
		const struct elf_rule rule = flow_rule(&s->states[s->places[*off].state]);

		if (s->places[*off].state != last)
			r = cfi_output_add(&spans->out, *off - start, &rule);
		last = s->places[*off].state;
	}
	return r < 0 ? r : row_spans_add(spans, s->va + start, s->va + *off, first, ELF_CODE);
}

/*
 * Writes the span of a trampoline of `len` bytes at *off. A signal handler returns to its first byte, and an
 * unwinder looks up the byte before. That is padding, and the span includes it unless it is covered (up to
 * the offset `covered`).
 */
static int emit_trampoline(struct row_spans *spans, const struct sweep *s, uint32_t *off, uint32_t len,
			   uint32_t covered)
{
	const uint32_t start = *off > covered ? *off - 1 : *off;
	const size_t first = spans->out.n_rows;
	int r = cfi_output_add(&spans->out, 0, &row_rule_x86_signal);

	*off += len;
	return r < 0 ? r : row_spans_add(spans, s->va + start, s->va + *off, first, ELF_CODE);
}

static int emit(struct row_spans *spans, struct sweep *s, uint32_t end)
{
	uint32_t off = 0, covered = 0, len;
	int r = 0;

	while (off < end && r == 0) {
		if (is_known(s, off, end))
			r = emit_proven(spans, s, &off, end);
		else if ((len = x86_sigreturn(s->code + off, end - off)))
			r = emit_trampoline(spans, s, &off, len, covered);
		else {
			off++;
			continue;
		}
		covered = off;
	}
	return r;
}

/*
 * The offset from which the next bytes are analysed: that of the first function that runs out of the present
 * ones.
 */
static uint32_t resume_at(struct sweep *s)
{
	uint32_t at = s->n;

	for (size_t i = 0; i < s->n_components; i++) {
		const struct component *c = &s->components[i];

		if (c->parent == i && c->cut && c->entry < at && c->entry > s->n / 4)
			at = c->entry;
	}
	return at;
}

int asmrows_read_code(struct row_spans *spans, uint64_t va, const uint8_t *code, uint32_t n, bool last,
		      uint32_t *ret_done)
{
	_cleanup_(sweep_fini) struct sweep s = {.code = code, .va = va, .n = n, .n_states = 1};
	const struct flow_state none = {0};

	s.places = calloc(n, sizeof *s.places);
	s.queue = calloc(n, sizeof *s.queue);
	s.calls = calloc(n / 8 + 1, sizeof *s.calls);
	if (!s.places || !s.queue || !s.calls ||
	    array_reserve(&s.states, &s.states_cap, 1, sizeof *s.states) < 0)
		return -ENOMEM;
	s.states[0] = none;
	sweep_code(&s);
	if (s.no_memory)
		return -ENOMEM;
	*ret_done = last ? n : resume_at(&s);
	return emit(spans, &s, *ret_done);
}

/*
 * Padding behind a span gets the rule of its last row: some functions continue through it into the next one
 * (checking variants in glibc).
 */
static int read_padding(struct row_spans *spans, const struct row_span *before, uint64_t va,
			const uint8_t *code, uint32_t n)
{
	const uint32_t end = x86_nops(code, n), rule = spans->out.rows[before->first + before->n - 1].rule;
	const size_t first = spans->out.n_rows;
	int r;

	if (end < ELF_GAP_MIN || x86_sigreturn(code + end, n - end))
		return 0;
	r = cfi_output_add_index(&spans->out, 0, rule);
	return r < 0 ? r : row_spans_add(spans, va, va + end, first, ELF_CODE);
}

static int read_gap(struct row_spans *spans, const struct elf_image *img, const struct code_gap *gap)
{
	uint64_t start = gap->start;
	int r = 0;

	while (start < gap->end && r == 0) {
		const bool last = gap->end - start <= ASM_CHUNK_BYTES;
		uint32_t n = last ? (uint32_t)(gap->end - start) : ASM_CHUNK_BYTES, done = n;
		_cleanup_free_ uint8_t *code = malloc(n);

		if (!code)
			return -ENOMEM;
		if (elf_image_pread(img, gap->offset + (start - gap->start), code, n) < 0)
			return 0;
		if (start == gap->start && gap->before.n)
			r = read_padding(spans, &gap->before, start, code, n);
		if (r == 0)
			r = asmrows_read_code(spans, start, code, n, last, &done);
		start += done;
	}
	return r;
}

int asmrows_read(struct row_spans *spans, const struct elf_image *img)
{
	if (elf_image_machine(img) != EM_X86_64 || spans->n == 0 || spans->n_functions > 0)
		return 0;
	return code_gaps_visit(spans, img, ASM_BYTES_MAX, read_gap);
}
