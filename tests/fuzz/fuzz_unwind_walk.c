// SPDX-License-Identifier: Apache-2.0
/*
 * The kernel's unwinder, built for the host, over a table of any bytes, as if a parser process could make the
 * agent publish what it likes. The input is the registers, the process's stack and the table, which may also
 * be taken for the heaps of a HotSpot (struct code_heaps). The walk must end, with no more frames than it may
 * have, and touch no byte outside of its area and its segments.
 */
#include <stdlib.h>
#include <string.h>

#include "agent/unwind/list.h"
#include "bpf/unwind.h"

#define LIST_AT 64u    /* bytes in segment 0 */
#define TABLE_AT 4096u /* the table lies there, and up to the end of the segment */
#define TABLE_REF (TABLE_AT / REF_ALIGN)
#define TEXT 0x400000ull	/* the mapping, and its ELF address */
#define TEXT_BYTES (1ull << 20) /* of the mapping */
#define STACK 0x7fff00000000ull
#define STACK_MAX 4096u
#define LIMIT 600u

static void require(int condition)
{
	if (!condition)
		abort();
}

struct scene {
	struct segment *segments[2]; /* each a block of its own, so that the sanitizer sees what is beyond */
	struct unwind_area *area;
	const uint8_t *stack;
	size_t stack_bytes;
};

static struct segment *segment_of(void *data, __u32 index)
{
	struct scene *s = data;

	return index < 2 ? s->segments[index] : NULL;
}

static int read_stack(void *data, void *to, __u32 bytes, __u64 address)
{
	const struct scene *s = data;
	__u64 at = address - STACK;

	if (at > s->stack_bytes || bytes > s->stack_bytes - at)
		return -1;
	memcpy(to, s->stack + at, bytes);
	return 0;
}

static void scene_make(struct scene *s)
{
	const struct mapping_entry entry = {.start = TEXT,
					    .end = TEXT + TEXT_BYTES,
					    .bias = 0,
					    .file = 1,
					    .generation = 0,
					    .table = TABLE_REF};

	for (unsigned i = 0; i < 2; i++) {
		s->segments[i] = calloc(1, sizeof *s->segments[i]);
		require(s->segments[i] != NULL);
	}
	s->area = calloc(1, sizeof *s->area);
	require(s->area != NULL);
	list_write(s->segments[0]->bytes + LIST_AT, &entry, 1, 1, 0);
}

/* The head of the input. */
struct head {
	uint64_t ip, sp, fp; /* offsets in the text and in the stack; any number */
	uint16_t stack_bytes;
	uint8_t innermost; /* bit 0; bit 1: there are heaps, which begin at the table's word that the others number */
	uint8_t regs;
};

static size_t scene_fill(struct scene *s, const uint8_t *data, size_t size, struct head *ret)
{
	struct unwind_state *t = &s->area->state;
	size_t table;

	memcpy(ret, data, sizeof *ret);
	data += sizeof *ret;
	size -= sizeof *ret;
	s->stack = data;
	s->stack_bytes = ret->stack_bytes % (STACK_MAX + 1);
	s->stack_bytes = s->stack_bytes < size ? s->stack_bytes : size;
	table = size - s->stack_bytes;
	table = table < SEGMENT_VALUE - TABLE_AT ? table : SEGMENT_VALUE - TABLE_AT;
	memcpy(s->segments[0]->bytes + TABLE_AT, data + s->stack_bytes, table);
	/* only the generation is the agent's */
	memset(s->segments[0]->bytes + TABLE_AT + BLOCK_GENERATION, 0, 4);
	memset(s->area, 0, sizeof *s->area);
	t->ip = TEXT + ret->ip;
	t->sp = STACK + ret->sp;
	t->fp = STACK + ret->fp;
	t->list = LIST_AT / REF_ALIGN;
	t->limit = LIMIT;
	t->innermost = ret->innermost & 1;
	t->heaps_at = ret->innermost & 2 ? TABLE_AT + (ret->innermost >> 2) * 8u : 0;
	t->have_regs = 1;
	for (unsigned i = 0; i < REGISTER_SLOTS; i++)
		t->regs[i] = STACK + ret->regs * i * 8;
	return table;
}

/* A round adds a frame, enters another mapping, or ends. */
static int walk(const struct unwind_state *t)
{
	int next = NEXT_MAPPING;

	for (unsigned rounds = 0; next >= ENDINGS; rounds++) {
		require(rounds <= 2 * t->limit + 2);
		require(next == NEXT_MAPPING || next == NEXT_FRAMES);
		next = next == NEXT_MAPPING ? unwind_mapping() : unwind_frames();
	}
	return next;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct scene s;
	struct code_cache codes = {0};
	const struct env env = {.codes = &codes, .segment = segment_of, .read_user = read_stack, .data = &s};
	struct env with_area = env;
	struct head head;
	size_t table;
	int ending;

	if (size < sizeof head)
		return 0;
	if (!s.area)
		scene_make(&s);
	table = scene_fill(&s, data, size, &head);
	with_area.area = s.area;
	env_current = &with_area;
	ending = walk(&s.area->state);
	for (unsigned lap = 0; ending == ENDING_DEPTH_LIMIT && lap < 3; lap++) {
		unwind_beyond_limit();
		ending = walk(&s.area->state);
	}
	if (s.area->state.ring)
		require(unwind_omit(ending) == ending);
	(void)hotspot_unloaded();
	env_current = NULL;
	require(ending >= 0 && ending < ENDINGS);
	require(s.area->state.n <= LIMIT + RING_FRAMES);
	memset(s.segments[0]->bytes + TABLE_AT, 0, table);
	return 0;
}
