// SPDX-License-Identifier: Apache-2.0
/*
 * Free space is a sorted array of extents per segment, searched first fit: blocks live long and are few
 * (tables and lists), so the arrays stay short.
 */
#include "agent/unwind/arena.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "bpf/abi.h"

struct extent {
	uint32_t offset, len; /* bytes, multiples of REF_ALIGN */
};

struct segment_space {
	uint8_t *mem; /* not owned */
	struct extent *free;
	size_t n, cap;
};

struct block_list {
	struct arena_block *blocks;
	size_t n, cap;
	size_t bytes;
};

struct arena {
	arena_segment_fn fn;
	void *data;
	uint32_t max_segments, n_segments;
	struct segment_space *segments;
	struct block_list retired, waiting; /* since the last grace period began; in the one that runs */
	size_t used_bytes, max_bytes;
	uint64_t n_full;
};

static uint32_t round_up(size_t len)
{
	return (uint32_t)((len + REF_ALIGN - 1) / REF_ALIGN * REF_ALIGN);
}

static int extent_insert(struct segment_space *s, size_t at, struct extent e)
{
	if (s->n == s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 8;
		struct extent *more = realloc(s->free, cap * sizeof *more);

		if (!more)
			return -ENOMEM;
		s->free = more;
		s->cap = cap;
	}
	memmove(&s->free[at + 1], &s->free[at], (s->n - at) * sizeof *s->free);
	s->free[at] = e;
	s->n++;
	return 0;
}

static void extent_remove(struct segment_space *s, size_t at)
{
	s->n--;
	memmove(&s->free[at], &s->free[at + 1], (s->n - at) * sizeof *s->free);
}

/* Gives [offset, offset + len) back, merged with its neighbours. */
static int space_release(struct segment_space *s, uint32_t offset, uint32_t len)
{
	size_t i = 0;

	while (i < s->n && s->free[i].offset < offset)
		i++;
	if (i > 0 && s->free[i - 1].offset + s->free[i - 1].len == offset) {
		s->free[i - 1].len += len;
		if (i < s->n && offset + len == s->free[i].offset) {
			s->free[i - 1].len += s->free[i].len;
			extent_remove(s, i);
		}
		return 0;
	}
	if (i < s->n && offset + len == s->free[i].offset) {
		s->free[i].offset = offset;
		s->free[i].len += len;
		return 0;
	}
	return extent_insert(s, i, (struct extent){offset, len});
}

static bool space_take(struct segment_space *s, uint32_t len, uint32_t *ret_offset)
{
	for (size_t i = 0; i < s->n; i++) {
		if (s->free[i].len < len)
			continue;
		*ret_offset = s->free[i].offset;
		s->free[i].offset += len;
		s->free[i].len -= len;
		if (!s->free[i].len)
			extent_remove(s, i);
		return true;
	}
	return false;
}

static int segment_add(struct arena *a)
{
	struct segment_space *s = &a->segments[a->n_segments];
	uint32_t reserved = a->n_segments == 0 ? PROCESS_TABLE_BYTES : 0;
	void *mem;
	int r;

	if (a->n_segments == a->max_segments)
		return -ENOSPC;
	r = a->fn(a->data, a->n_segments, &mem);
	if (r < 0)
		return r;
	s->mem = mem;
	a->n_segments++;
	return space_release(s, reserved, SEGMENT_BYTES - reserved);
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
	for (uint32_t i = 0; i < a->n_segments; i++)
		free(a->segments[i].free);
	free(a->segments);
	free(a->retired.blocks);
	free(a->waiting.blocks);
	free(a);
}

int arena_alloc(struct arena *a, size_t len, struct arena_block *ret)
{
	uint32_t offset = 0, i, n = round_up(len);
	int r;

	if (len == 0 || len > SEGMENT_BYTES) {
		a->n_full++;
		return -ENOSPC;
	}
	for (i = 0; i < a->n_segments; i++)
		if (space_take(&a->segments[i], n, &offset))
			break;
	if (i == a->n_segments) {
		r = segment_add(a);
		if (r == 0 && !space_take(&a->segments[i], n, &offset))
			r = -ENOSPC;
		if (r < 0) {
			a->n_full += r == -ENOSPC;
			return r;
		}
	}
	a->used_bytes += n;
	*ret = (struct arena_block){i << REF_OFFSET_BITS | offset / REF_ALIGN, n};
	return 0;
}

static void block_release(struct arena *a, struct arena_block b)
{
	uint32_t offset = (b.ref & ((1u << REF_OFFSET_BITS) - 1)) * REF_ALIGN;

	/* without memory for an extent the bytes stay unusable: lost, but nothing is corrupted */
	(void)space_release(&a->segments[b.ref >> REF_OFFSET_BITS], offset, b.len);
	a->used_bytes -= b.len;
}

void arena_retire(struct arena *a, struct arena_block block)
{
	struct block_list *l = &a->retired;

	if (!block.ref)
		return;
	if (l->n == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 64;
		struct arena_block *more = realloc(l->blocks, cap * sizeof *more);

		if (!more)
			return; /* never reused, as above */
		l->blocks = more;
		l->cap = cap;
	}
	l->blocks[l->n++] = block;
	l->bytes += block.len;
}

void *arena_at(const struct arena *a, uint32_t ref)
{
	return a->segments[ref >> REF_OFFSET_BITS].mem + (ref & ((1u << REF_OFFSET_BITS) - 1)) * REF_ALIGN;
}

void *arena_segment(const struct arena *a, uint32_t index)
{
	return index < a->n_segments ? a->segments[index].mem : NULL;
}

void *arena_process_table(const struct arena *a)
{
	return a->segments[0].mem;
}

bool arena_grace_begin(struct arena *a)
{
	struct block_list empty = a->waiting;

	if (!a->retired.n || a->waiting.n)
		return false;
	a->waiting = a->retired;
	a->retired = empty;
	return true;
}

void arena_grace_end(struct arena *a)
{
	for (size_t i = 0; i < a->waiting.n; i++)
		block_release(a, a->waiting.blocks[i]);
	a->waiting.n = 0;
	a->waiting.bytes = 0;
}

void arena_stats(const struct arena *a, struct arena_stats *ret)
{
	*ret = (struct arena_stats){
		.max_bytes = a->max_bytes,
		.segment_bytes = (size_t)a->n_segments * SEGMENT_VALUE,
		.used_bytes = a->used_bytes,
		.retired_bytes = a->retired.bytes + a->waiting.bytes,
		.n_full = a->n_full,
	};
}
