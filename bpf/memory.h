/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The memory that the walks read: the arena's segments, and the sampled thread's own, of which a window of
 * 1 KiB is read at once.
 */
#ifndef PROFLET_BPF_MEMORY_H
#define PROFLET_BPF_MEMORY_H

#include "bpf/env.h"

#define SEGMENT_MASK_2 0x1ffffe
#define SEGMENT_MASK_4 0x1ffffc
#define SEGMENT_MASK_8 0x1ffff8
#define SEGMENT_MASK_32 0x1fffe0

static __always_inline __u32 segment_u32(struct segment *s, __u64 offset)
{
	BOUND(offset, SEGMENT_MASK_4);
	return *(__u32 *)(s->bytes + offset);
}

static __always_inline __u64 segment_u64(struct segment *s, __u64 offset)
{
	BOUND(offset, SEGMENT_MASK_8);
	return *(__u64 *)(s->bytes + offset);
}

/* Four rows from an even offset on. */
static __always_inline __u64 segment_rows(struct segment *s, __u64 offset)
{
	BOUND(offset, SEGMENT_MASK_2);
	return *(rows_word *)(s->bytes + offset);
}

static __always_inline __u32 ref_segment(__u32 ref)
{
	return ref >> REF_OFFSET_BITS;
}

static __always_inline __u32 ref_offset(__u32 ref)
{
	return (ref & ((1u << REF_OFFSET_BITS) - 1)) * REF_ALIGN;
}

/* The segment of the list that a process slot names; NULL: the slot names none, or not this block. */
static __always_inline struct segment *slot_segment(__u32 slot)
{
	__u32 list = slot & SLOT_LIST_MASK;
	struct segment *s = list ? env_segment(ref_segment(list)) : NULL;

	if (!s || (segment_u32(s, ref_offset(list) + BLOCK_GENERATION) & SLOT_GENERATION_MASK) !=
			  (slot >> SLOT_GENERATION_SHIFT & SLOT_GENERATION_MASK))
		return NULL;
	return s;
}

/* The word at a process address inside the window. */
static __always_inline __u64 window_word(struct unwind_area *a, __u64 offset)
{
	BOUND(offset, (WINDOW_BYTES - 1) & ~7u);
	return *(__u64 *)(a->window + offset);
}

/*
 * Fills the window so that it holds the word at `need` (8-byte aligned): from 56 bytes before it on, but from
 * the same page, up to the page's end where the next page is not there, or that word alone. 0, or < 0.
 */
static __always_inline int window_fill(struct unwind_area *a, __u64 need)
{
	struct unwind_state *t = &a->state;
	__u64 page = need & ~(PAGE_BYTES_MIN - 1ull);
	__u64 address = need - page < 56 ? page : need - 56;
	__u64 bytes = PAGE_BYTES_MIN - (address & (PAGE_BYTES_MIN - 1));

	t->window = address;
	t->window_len = WINDOW_BYTES;
	if (!env_read_user(a->window, WINDOW_BYTES, address))
		return 0;
	t->window_len = 0;
	if (bytes < WINDOW_BYTES) {
		BOUND(bytes, WINDOW_BYTES - 1);
		if (!env_read_user(a->window, bytes, address)) {
			t->window_len = bytes;
			return 0;
		}
	}
	t->window = need;
	if (env_read_user(a->window, 8, need))
		return -1;
	t->window_len = 8;
	return 0;
}

/* Fills the window, out of line, so that it holds the word at `need`, if that can be read. */
UNWIND_FN int unwind_window(__u64 need)
{
	struct unwind_area *a = env_area();

	return a && !(need & 7) ? window_fill(a, need) : -1;
}

/* Before several reads around `need`, by stack_word(): reads what is there at once. */
static __always_inline void window_around(const struct unwind_area *a, __u64 need)
{
	if (need - a->state.window + 7 >= a->state.window_len)
		(void)unwind_window(need);
}

/* Reads one word of the stack, from the window or alone. */
static __always_inline int stack_word(struct unwind_area *a, __u64 address, __u64 *ret)
{
	struct unwind_state *t = &a->state;
	__u64 offset = address - t->window;

	if (!(address & 7) && offset + 7 < t->window_len) {
		*ret = window_word(a, offset);
		return 0;
	}
	return env_read_user(ret, 8, address);
}

#endif
