// SPDX-License-Identifier: Apache-2.0
/*
 * Each segment has one sorted array of extents that cover it completely: free stretches and blocks. A block
 * changes its state in place, so that retiring and freeing need no memory; only cutting a free stretch in two
 * does. Blocks live long and are a few hundred a segment, so moving the tail of the array is cheap.
 */
#include "agent/unwind/arena.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "bpf/abi.h"

/* RETIRED: since the last grace period began; WAITING: in the one that runs. */
enum state { FREE, USED, RETIRED, WAITING };

struct extent {
	uint32_t offset, len; /* bytes, multiples of REF_ALIGN */
	enum state state;
	uint32_t hold; /* id of the reservation that it is part of; 0: none */
	struct arena_owner owner;
};

struct segment_space {
	uint8_t *mem; /* not owned */
	struct extent *extents;
	size_t n, cap;
	uint32_t free_max; /* no free extent without a hold is longer; may be too high */
	uint32_t n_retired, n_waiting;
};

/* A window of extents of one segment, while arena_hold looks for the best. */
struct window {
	uint32_t segment;
	size_t first, end; /* extents [first, end) */
	uint64_t len;	   /* bytes of all of them */
	uint64_t used;	   /* of these, in tables */
	uint64_t youngest; /* last use of any table in it */
};

struct arena {
	arena_segment_fn fn;
	void *data;
	uint32_t max_segments, n_segments;
	struct segment_space *segments;
	uint32_t generation, last_hold;
	size_t used_bytes, retired_bytes, free_bytes, held_bytes, max_bytes;
	uint64_t n_full;
};

static uint32_t round_up(size_t len)
{
	return (uint32_t)((len + REF_ALIGN - 1) / REF_ALIGN * REF_ALIGN);
}

static uint32_t offset_of(uint32_t ref)
{
	return (ref & ((1u << REF_OFFSET_BITS) - 1)) * REF_ALIGN;
}

static int segment_add(struct arena *a)
{
	struct segment_space *s = &a->segments[a->n_segments];
	uint32_t reserved = a->n_segments == 0 ? PROCESS_TABLE_BYTES : 0;
	void *mem = NULL;
	int r;

	if (a->n_segments == a->max_segments)
		return -ENOSPC;
	r = array_reserve(&s->extents, &s->cap, 8, sizeof *s->extents);
	if (r == 0)
		r = a->fn(a->data, a->n_segments, &mem);
	if (r < 0)
		return r;
	s->mem = mem;
	s->extents[0] = (struct extent){.offset = reserved, .len = SEGMENT_BYTES - reserved};
	s->n = 1;
	s->free_max = SEGMENT_BYTES - reserved;
	a->free_bytes += s->free_max;
	a->n_segments++;
	return 0;
}

int arena_new(struct arena **ret, size_t max_bytes, arena_segment_fn fn, void *data)
{
	struct arena *a;
	int r;

	if (max_bytes < SEGMENT_BYTES)
		return -EINVAL;
	a = calloc(1, sizeof *a);
	if (!a)
		return -ENOMEM;
	*a = (struct arena){.fn = fn, .data = data, .max_bytes = max_bytes};
	a->max_segments = (uint32_t)(max_bytes / SEGMENT_BYTES);
	if (a->max_segments > SEGMENTS_MAX)
		a->max_segments = SEGMENTS_MAX;
	a->segments = calloc(a->max_segments, sizeof *a->segments);
	r = a->segments ? segment_add(a) : -ENOMEM;
	if (r < 0) {
		arena_free(a);
		return r;
	}
	*ret = a;
	return 0;
}

void arena_free(struct arena *a)
{
	if (!a)
		return;
	for (uint32_t i = 0; a->segments && i < a->max_segments; i++)
		free(a->segments[i].extents);
	free(a->segments);
	free(a);
}

/* --- blocks */

/*
 * Slots and mapping entries have the low bits of a generation. These are never all 0, so that none matches a
 * cleared header.
 */
static uint32_t next_generation(struct arena *a)
{
	do
		a->generation++;
	while (!(a->generation & SLOT_GENERATION_MASK));
	return a->generation;
}

/* The free extent to take `len` bytes from: the lowest for tables, the highest for lists. SIZE_MAX: none. */
static size_t space_find(struct segment_space *s, uint32_t len, enum arena_kind kind)
{
	uint32_t longest = 0;

	if (len > s->free_max)
		return SIZE_MAX;
	for (size_t k = 0; k < s->n; k++) {
		size_t i = kind == ARENA_TABLE ? k : s->n - 1 - k;
		const struct extent *e = &s->extents[i];

		if (e->state != FREE || e->hold)
			continue;
		if (e->len >= len)
			return i;
		longest = e->len > longest ? e->len : longest;
	}
	s->free_max = longest;
	return SIZE_MAX;
}

/* Makes a block of the low or high end of the free extent, which is not part of a hold. 0 or -ENOMEM. */
static int block_cut(struct arena *a, uint32_t segment, size_t at, uint32_t len, struct arena_owner owner,
		     struct arena_block *ret)
{
	struct segment_space *s = &a->segments[segment];
	struct extent *e, block = {.len = len, .state = USED, .owner = owner};
	int r = array_reserve(&s->extents, &s->cap, s->n + 1, sizeof *s->extents);

	if (r < 0)
		return r;
	e = &s->extents[at];
	block.offset = owner.kind == ARENA_TABLE ? e->offset : e->offset + e->len - len;
	if (e->len == len) {
		*e = block;
	} else {
		struct extent left = *e;

		left.len -= len;
		left.offset += owner.kind == ARENA_TABLE ? len : 0;
		memmove(e + 1, e, (s->n - at) * sizeof *e);
		s->n++;
		e[owner.kind == ARENA_TABLE] = left;
		e[owner.kind != ARENA_TABLE] = block;
	}
	a->used_bytes += len;
	a->free_bytes -= len;
	*ret = (struct arena_block){segment << REF_OFFSET_BITS | block.offset / REF_ALIGN, len,
				    next_generation(a)};
	return 0;
}

/* Lists go to the first segments, tables to the last ones. */
static int alloc_anywhere(struct arena *a, uint32_t len, struct arena_owner owner, struct arena_block *ret)
{
	for (uint32_t k = 0; k < a->n_segments; k++) {
		uint32_t i = owner.kind == ARENA_LIST ? k : a->n_segments - 1 - k;
		size_t at = space_find(&a->segments[i], len, owner.kind);

		if (at != SIZE_MAX)
			return block_cut(a, i, at, len, owner, ret);
	}
	return -ENOSPC;
}

int arena_alloc(struct arena *a, size_t len, struct arena_owner owner, struct arena_block *ret)
{
	int r = -ENOSPC;

	if (len > 0 && len <= SEGMENT_BYTES) {
		r = alloc_anywhere(a, round_up(len), owner, ret);
		if (r == -ENOSPC)
			r = segment_add(a) ?: alloc_anywhere(a, round_up(len), owner, ret);
	}
	a->n_full += r == -ENOSPC;
	return r;
}

/* The extent that contains `offset`. */
static size_t extent_at(const struct segment_space *s, uint32_t offset)
{
	size_t lo = 0, hi = s->n;

	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;

		if (s->extents[mid].offset <= offset)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

void arena_retire(struct arena *a, struct arena_block block)
{
	struct segment_space *s = &a->segments[block.ref >> REF_OFFSET_BITS];
	struct extent *e;

	if (!block.ref)
		return;
	e = &s->extents[extent_at(s, offset_of(block.ref))];
	assert(e->offset == offset_of(block.ref) && e->len == block.len && e->state == USED);
	e->state = RETIRED;
	s->n_retired++;
	a->used_bytes -= e->len;
	a->retired_bytes += e->len;
}

void *arena_at(const struct arena *a, uint32_t ref)
{
	return a->segments[ref >> REF_OFFSET_BITS].mem + offset_of(ref);
}

void *arena_segment(const struct arena *a, uint32_t index)
{
	return index < a->n_segments ? a->segments[index].mem : NULL;
}

void *arena_process_table(const struct arena *a)
{
	return a->segments[0].mem;
}

/* --- grace periods */

bool arena_grace_begin(struct arena *a)
{
	bool any = false;

	for (uint32_t i = 0; i < a->n_segments; i++) {
		if (a->segments[i].n_waiting)
			return false;
		any |= a->segments[i].n_retired > 0;
	}
	for (uint32_t i = 0; i < a->n_segments; i++) {
		struct segment_space *s = &a->segments[i];

		if (!s->n_retired)
			continue;
		for (size_t k = 0; k < s->n; k++)
			if (s->extents[k].state == RETIRED)
				s->extents[k].state = WAITING;
		s->n_waiting = s->n_retired;
		s->n_retired = 0;
	}
	return any;
}

/* Joins free extents that touch each other and belong to the same hold, or to none. */
static void space_merge(struct segment_space *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++) {
		struct extent *e = &s->extents[i], *before = n ? &s->extents[n - 1] : NULL;

		if (before && e->state == FREE && before->state == FREE && e->hold == before->hold) {
			before->len += e->len;
			e = before;
		} else {
			s->extents[n++] = *e;
			e = &s->extents[n - 1];
		}
		if (e->state == FREE && !e->hold && e->len > s->free_max)
			s->free_max = e->len;
	}
	s->n = n;
}

void arena_grace_end(struct arena *a)
{
	for (uint32_t i = 0; i < a->n_segments; i++) {
		struct segment_space *s = &a->segments[i];

		if (!s->n_waiting)
			continue;
		for (size_t k = 0; k < s->n; k++) {
			struct extent *e = &s->extents[k];

			if (e->state != WAITING)
				continue;
			e->state = FREE;
			memset(s->mem + e->offset + BLOCK_GENERATION, 0, sizeof(uint32_t));
			a->retired_bytes -= e->len;
			a->free_bytes += e->len;
			a->held_bytes += e->hold ? e->len : 0;
		}
		s->n_waiting = 0;
		space_merge(s);
	}
}

/* --- holds */

static uint64_t last_used(const struct extent *e, const struct arena_eviction *ev)
{
	if (e->hold || (e->state == USED && e->owner.kind != ARENA_TABLE))
		return ARENA_KEEP;
	return e->state == USED ? ev->last_used(e->owner.id, ev->data) : 0;
}

static bool better(const struct window *w, const struct window *best)
{
	if (!best->len || w->youngest != best->youngest)
		return !best->len || w->youngest < best->youngest;
	return w->used < best->used;
}

/*
 * The best window of one segment, in one pass: the window's end advances by one extent, then its start as far
 * as it stays long enough. `ages` has the last use of each extent, and `falling` the extents of the window
 * whose age no later one reaches; the first of these is the youngest.
 */
static void window_best(const struct segment_space *s, uint32_t segment, uint32_t len, const uint64_t *ages,
			size_t *falling, struct window *best)
{
	struct window w = {.segment = segment};
	size_t head = 0, tail = 0;

	for (size_t i = 0; i < s->n; i++) {
		const struct extent *e = &s->extents[i];

		if (ages[i] == ARENA_KEEP) {
			w = (struct window){.segment = segment, .first = i + 1};
			head = tail = 0;
			continue;
		}
		while (tail > head && ages[falling[tail - 1]] <= ages[i])
			tail--;
		falling[tail++] = i;
		w.len += e->len;
		w.used += e->state == USED ? e->len : 0;
		w.end = i + 1;
		for (; w.len - s->extents[w.first].len >= len; w.first++) {
			w.len -= s->extents[w.first].len;
			w.used -= s->extents[w.first].state == USED ? s->extents[w.first].len : 0;
		}
		while (falling[head] < w.first)
			head++;
		w.youngest = ages[falling[head]];
		if (w.len >= len && better(&w, best))
			*best = w;
	}
}

static int window_find(const struct arena *a, uint32_t len, const struct arena_eviction *ev,
		       struct window *ret)
{
	struct window best = {0};
	size_t most = 0;

	for (uint32_t i = 0; i < a->n_segments; i++)
		most = a->segments[i].n > most ? a->segments[i].n : most;
	_cleanup_free_ uint64_t *ages = malloc(most * sizeof *ages);
	_cleanup_free_ size_t *falling = malloc(most * sizeof *falling);
	if (!ages || !falling)
		return -ENOMEM;
	for (uint32_t i = 0; i < a->n_segments; i++) {
		const struct segment_space *s = &a->segments[i];

		for (size_t k = 0; k < s->n; k++)
			ages[k] = last_used(&s->extents[k], ev);
		window_best(s, i, len, ages, falling, &best);
	}
	if (!best.len)
		return -ENOSPC;
	*ret = best;
	return 0;
}

/* Cuts the free extent in two, the first of which has `len` bytes. There is room for one more. */
static void extent_split(struct segment_space *s, size_t at, uint32_t len)
{
	struct extent *e = &s->extents[at];

	memmove(e + 1, e, (s->n - at) * sizeof *e);
	s->n++;
	e[0].len = len;
	e[1].offset += len;
	e[1].len -= len;
}

/* Leaves out what the window has too much at a free end. */
static int window_trim(struct segment_space *s, struct window *w, uint32_t len)
{
	uint32_t surplus = (uint32_t)(w->len - len);
	const struct extent *first, *last;

	if (array_reserve(&s->extents, &s->cap, s->n + 1, sizeof *s->extents) < 0)
		return -ENOMEM;
	first = &s->extents[w->first];
	last = &s->extents[w->end - 1];
	if (surplus && last->state == FREE && last->len > surplus) {
		extent_split(s, w->end - 1, last->len - surplus);
		w->len = len;
	} else if (surplus && first->state == FREE && first->len > surplus) {
		extent_split(s, w->first, surplus);
		w->first++;
		w->end++;
		w->len = len;
	}
	return 0;
}

int arena_hold(struct arena *a, size_t len, const struct arena_eviction *ev, struct arena_hold *ret)
{
	struct segment_space *s;
	struct window w;
	int r = len > 0 && len <= SEGMENT_BYTES ? window_find(a, round_up(len), ev, &w) : -ENOSPC;

	if (r < 0)
		return r;
	s = &a->segments[w.segment];
	r = window_trim(s, &w, round_up(len));
	if (r < 0)
		return r;
	if (!++a->last_hold)
		a->last_hold = 1;
	*ret = (struct arena_hold){a->last_hold, w.segment, s->extents[w.first].offset, (uint32_t)w.len};
	for (size_t i = w.first; i < w.end; i++) {
		s->extents[i].hold = ret->id;
		a->held_bytes += s->extents[i].state == FREE ? s->extents[i].len : 0;
	}
	for (size_t i = w.first; i < w.end; i++) /* which changes states, and no extents */
		if (s->extents[i].state == USED)
			ev->evict(s->extents[i].owner.id, ev->data);
	space_merge(s);
	return 0;
}

void arena_unhold(struct arena *a, struct arena_hold *hold)
{
	struct segment_space *s = &a->segments[hold->segment];

	if (!hold->id)
		return;
	for (size_t i = extent_at(s, hold->offset); i < s->n && s->extents[i].hold == hold->id; i++) {
		s->extents[i].hold = 0;
		a->held_bytes -= s->extents[i].state == FREE ? s->extents[i].len : 0;
	}
	space_merge(s);
	*hold = (struct arena_hold){0};
}

int arena_claim(struct arena *a, struct arena_hold *hold, size_t len, struct arena_owner owner,
		struct arena_block *ret)
{
	struct segment_space *s = &a->segments[hold->segment];
	size_t at = extent_at(s, hold->offset);
	struct arena_block block;
	struct extent *e = &s->extents[at];
	int r;

	if (!len || round_up(len) > hold->len)
		return -ENOSPC;
	if (e->state != FREE || e->hold != hold->id || e->len != hold->len)
		return -EAGAIN;
	e->hold = 0;
	r = block_cut(a, hold->segment, at, round_up(len), owner, &block);
	if (r < 0) {
		s->extents[at].hold = hold->id;
		return r;
	}
	a->held_bytes -= hold->len;
	space_merge(s);
	*hold = (struct arena_hold){0};
	*ret = block;
	return 0;
}

/* --- what there is */

void arena_stats(const struct arena *a, struct arena_stats *ret)
{
	*ret = (struct arena_stats){
		.max_bytes = a->max_bytes,
		.segment_bytes = (size_t)a->n_segments * SEGMENT_VALUE,
		.used_bytes = a->used_bytes,
		.retired_bytes = a->retired_bytes,
		.free_bytes = a->free_bytes,
		.held_bytes = a->held_bytes,
		.total_bytes = (size_t)a->n_segments * SEGMENT_BYTES - (size_t)PROCESS_TABLE_BYTES,
		.n_full = a->n_full,
	};
}

void arena_each(const struct arena *a, void (*fn)(const struct arena_extent *e, void *data), void *data)
{
	for (uint32_t i = 0; i < a->n_segments; i++) {
		for (size_t k = 0; k < a->segments[i].n; k++) {
			const struct extent *e = &a->segments[i].extents[k];

			fn(&(struct arena_extent){.segment = i,
						  .offset = e->offset,
						  .len = e->len,
						  .state = e->state == FREE   ? ARENA_FREE
							   : e->state == USED ? ARENA_USED
									      : ARENA_RETIRED,
						  .held = e->hold != 0,
						  .owner = e->owner},
			   data);
		}
	}
}
