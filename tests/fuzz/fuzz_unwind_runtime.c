// SPDX-License-Identifier: Apache-2.0
/*
 * The kernel's walk of a language runtime's frames, built for the host, over memory of any bytes, by any
 * valid description; then the same frames among native ones. The walk must end, with no more frames and
 * segments than a record has, and touch no byte outside of its area.
 */
#include <stdlib.h>
#include <string.h>

#include "agent/sample/splice.h"
#include "agent/unwind/list.h"
#include "bpf/unwind.h"

#define LIST_AT 64u /* bytes in the segment */
#define MEMORY 0x7f0000000000ull
#define NATIVE_MAX 64u

static void require(int condition)
{
	if (!condition)
		abort();
}

struct scene {
	struct segment *segment;
	struct unwind_area *area;
	const uint8_t *memory;
	size_t bytes;
};

static struct segment *segment_of(void *data, __u32 index)
{
	struct scene *s = data;

	return index ? NULL : s->segment;
}

static int read_memory(void *data, void *to, __u32 bytes, __u64 address)
{
	const struct scene *s = data;
	__u64 at = address - MEMORY;

	if (at > s->bytes || bytes > s->bytes - at)
		return -1;
	memcpy(to, s->memory + at, bytes);
	return 0;
}

/* The head of the input: a description, whose addresses are offsets in the memory. */
struct head {
	struct runtime_walk walk;
	uint64_t thread;
	uint8_t natives[NATIVE_MAX];
};

/* As the agent makes them: fields of a frame within it, sizes within their limits. */
static struct runtime_walk walk_of(const struct head *h)
{
	struct runtime_walk w = h->walk;

	w.frame_bytes = (uint16_t)(8 + w.frame_bytes % (RUNTIME_FRAME_BYTES_MAX / 8) * 8);
	w.next = (uint16_t)(w.next % w.frame_bytes & ~7u);
	w.code = (uint16_t)(w.code % w.frame_bytes & ~7u);
	w.instruction = (uint16_t)(w.instruction % w.frame_bytes & ~3u);
	w.kind %= w.frame_bytes;
	w.content_bytes = (uint16_t)(w.content_bytes % (RUNTIME_CODE_BYTES_MAX + 1) & ~7u);
	w.shape %= RUNTIME_SHAPE_STATES + 2;
	if (w.shape == RUNTIME_SHAPE_NATIVE) /* which has a target of its own */
		w.shape = RUNTIME_SHAPE_VALUES;
	w.runtime = w.shape == RUNTIME_SHAPE_PAIRED   ? RUNTIME_PERL
		    : w.shape == RUNTIME_SHAPE_STATES ? RUNTIME_LUA
		    : w.shape == RUNTIME_SHAPE_VALUES ? RUNTIME_LUAJIT
						      : RUNTIME_CPYTHON;
	if (w.shape == RUNTIME_SHAPE_ARRAY) {
		w.kind = (uint16_t)(w.kind & ~7u);
		w.start = w.start & 1 ? MEMORY + (w.start & 0xfff8) : 0;
	}
	if (w.flags & RUNTIME_WALK_BLOCK)
		w.start = MEMORY + (w.start & 0xfff8);
	w.key = w.key ? MEMORY + (w.key & 0xffff) : 0;
	return w;
}

static void list_make(struct scene *s, const struct runtime_walk *walk)
{
	const struct mapping_entry none = {.start = 1, .end = 2};
	struct mapping_list *list = (struct mapping_list *)(s->segment->bytes + LIST_AT);

	list_write(list, &none, 1, 1, 0);
	list_write_walk(list, walk);
	memset(s->area, 0, sizeof *s->area);
	s->area->state.list = LIST_AT / REF_ALIGN;
	s->area->state.runtime_at = LIST_AT + list->runtime;
}

/* The same with LuaJIT's block of code, whose registers have anything. */
static void pass_block(struct scene *s, const struct head *h, unsigned i)
{
	struct unwind_state *t = &s->area->state;

	t->sp = t->tie_sp;
	t->ip = t->tie_ip;
	t->have_regs = h->natives[i] >> 2 & 1;
	for (unsigned k = 0; k < RULE_REGISTERS; k++)
		t->regs[k] = MEMORY + h->natives[(i + k) % NATIVE_MAX] * 8u;
	if (h->natives[i] & 8)
		(void)luajit_step_trace();
	luajit_loop();
}

/* The native walk passes loops that have any state. */
static void pass_loops(struct scene *s, const struct head *h)
{
	struct unwind_state *t = &s->area->state;

	for (unsigned i = 0; i < NATIVE_MAX; i++) {
		t->n = i;
		t->innermost = h->natives[i] & 1;
		t->tie_ip = s->area->runtime.walk.loop_start + (h->natives[i] & 2);
		t->tie_cfa = MEMORY + h->natives[i] * 8u;
		t->tie_sp = t->tie_cfa - 64;
		if (s->area->runtime.walk.shape == RUNTIME_SHAPE_VALUES)
			pass_block(s, h, i);
		else
			runtime_tie();
	}
}

static void walk(struct scene *s, const struct head *h)
{
	unsigned rounds = 0;

	if (!runtime_begin())
		return;
	if (s->area->runtime.walk.shape == RUNTIME_SHAPE_STATES ||
	    s->area->runtime.walk.shape == RUNTIME_SHAPE_VALUES)
		pass_loops(s, h);
	while (runtime_steps())
		require(++rounds <= RUNTIME_STEPS_MAX);
	runtime_walked();
}

/* The code of native frames: what the input says. */
static enum pairing_role role_of(uint64_t word, void *data)
{
	(void)data;
	return (enum pairing_role)((frame_file(word) - 1) % (PAIRING_PARSE + 1u));
}

static void check_segments(const struct runtime_part *part, const struct runtime_segment *segments)
{
	uint32_t end = 0;

	for (unsigned i = 0; i < part->n_segments; i++) {
		require(segments[i].end >= end + !segments[i].kind &&
			segments[i].kind < RUNTIME_SEGMENT_KINDS);
		end = segments[i].end;
	}
	require(end == part->n_words);
}

/* Ties the segments to native frames as the input says, and puts all frames into one stack. */
static void splice(struct scene *s, const struct head *h)
{
	static struct splice splicer;
	struct runtime_segment *segments = (struct runtime_segment *)(s->area->frames + RUNTIME_KEPT);
	const struct runtime_part *part = &s->area->runtime.part;
	uint64_t native[NATIVE_MAX];
	struct sample_view v = {.frames = native,
				.n_user = NATIVE_MAX,
				.runtime = part,
				.segments = segments,
				.runtime_words = (const uint64_t *)s->area->frames + RUNTIME_KEPT_WORDS},
			   ret;

	for (unsigned i = 0; i < NATIVE_MAX; i++)
		native[i] = frame_native(1 + h->natives[NATIVE_MAX - 1 - i] % 8u, i);
	splicer.options.role = role_of;
	for (unsigned i = 0;
	     i < part->n_segments && (!segments[i].kind || segments[i].kind == RUNTIME_SEGMENT_JUMP); i++)
		segments[i].native = h->natives[i] < 200 ? h->natives[i] : RUNTIME_NOT_TIED;
	sample_splice(&splicer, &v, &ret);
	require(ret.n_user <= NATIVE_MAX + part->n_words);
	require(part->runtime == RUNTIME_PERL || part->runtime == RUNTIME_LUA || ret.n_user >= part->n_words);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct scene s;
	const struct env env = {.segment = segment_of, .read_user = read_memory, .data = &s};
	struct env with_area = env;
	struct runtime_walk w;
	struct head head;

	if (size < sizeof head)
		return 0;
	if (!s.area) {
		s.area = calloc(1, sizeof *s.area);
		s.segment = calloc(1, sizeof *s.segment);
		require(s.area && s.segment);
	}
	memcpy(&head, data, sizeof head);
	s.memory = data + sizeof head;
	s.bytes = size - sizeof head;
	w = walk_of(&head);
	list_make(&s, &w);
	with_area.area = s.area;
	with_area.thread = MEMORY + (head.thread & 0xffff);
	env_current = &with_area;
	walk(&s, &head);
	s.area->state.n = NATIVE_MAX;
	require(runtime_attach() <= (int)(RECORD_WORDS - NATIVE_MAX));
	require(s.area->runtime.part.n_words <= 2 * RUNTIME_FRAMES_MAX);
	require(s.area->runtime.part.n_segments <= RUNTIME_SEGMENTS_MAX);
	check_segments(&s.area->runtime.part,
		       (const struct runtime_segment *)(s.area->frames + RUNTIME_KEPT));
	splice(&s, &head);
	env_current = NULL;
	return 0;
}
