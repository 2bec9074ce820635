/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Methods that HotSpot has compiled (struct code_heaps). Their memory is given to other code at any time, and
 * what the agent knows of it is older than the sample. So which code it is, and how large its frame is, is
 * read from the code's own header. The segment map says how many segments to go back from one to the
 * beginning of its block, where the header lies: 0 at the beginning, 0xff where nothing is.
 */
#ifndef PROFLET_BPF_HOTSPOT_H
#define PROFLET_BPF_HOTSPOT_H

#include "bpf/memory.h"

#define HOTSPOT_HOPS 8	   /* from a segment to its block, 254 segments each */
#define HOTSPOT_FREE 0xffu /* in the segment map */

/* Where a header is kept: behind all frames, in frames[]. */
#define HOTSPOT_SCRATCH (RECORD_WORDS - CODE_HEADER_BYTES / 8)

_Static_assert(HOTSPOT_SCRATCH >= RECORD_FRAMES, "HOTSPOT_SCRATCH");

/* A word of the header; `offset`: bytes from the block. */
static __always_inline __u64 hotspot_word(const struct unwind_area *a, __u64 offset)
{
	offset >>= 3;
	BOUND(offset, CODE_HEADER_BYTES / 8 - 1);
	return a->frames[HOTSPOT_SCRATCH + offset];
}

static __always_inline __u32 hotspot_u32(const struct unwind_area *a, __u64 offset)
{
	return hotspot_word(a, offset) >> (offset & 4) * 8;
}

/* A u16 member of the struct code_heaps at `heaps`. */
#define HOTSPOT_OFFSET(s, heaps, member)                                            \
	(segment_u32(s, (heaps) + __builtin_offsetof(struct code_heaps, member)) >> \
		 (__builtin_offsetof(struct code_heaps, member) & 2) * 8 &          \
	 0xffff)

/* The heap that state.ip is in, as the offset of its struct code_heap; 0: in none. */
static __always_inline __u64 hotspot_heap(struct segment *s, const struct unwind_state *t)
{
	ROLLED
	for (__u64 i = 0, at = t->heaps_at; i < CODE_HEAPS_MAX; i++, at += sizeof(struct code_heap))
		if (t->ip - segment_u64(s, at) < segment_u64(s, at + 8))
			return at;
	return 0;
}

/* The block with state.ip, a process address; 0: there is none. */
static __always_inline __u64 hotspot_block(struct segment *s, const struct unwind_state *t)
{
	const __u64 heap = hotspot_heap(s, t), shift = HOTSPOT_OFFSET(s, t->heaps_at, shift) & 31;
	__u64 low, map, i;
	__u8 back = 1;

	if (!heap)
		return 0;
	low = segment_u64(s, heap);
	map = segment_u64(s, heap + 16);
	i = (t->ip - low) >> shift;
	ROLLED
	for (int k = 0; k < HOTSPOT_HOPS && back; k++) {
		if (env_read_user(&back, 1, map + i) || back == HOTSPOT_FREE || back > i)
			return 0;
		i -= back;
	}
	return back ? 0 : low + (i << shift);
}

/* Whether the frame of the method stands, at state.ip or before it, or has stood. */
static __always_inline int hotspot_is_complete(struct unwind_area *a, struct segment *s, __u64 block)
{
	const struct unwind_state *t = &a->state;
	const __u64 at = t->heaps_at, complete = HOTSPOT_OFFSET(s, at, complete);
	const __u64 origin = HOTSPOT_OFFSET(s, at, origin), offset = HOTSPOT_OFFSET(s, at, begin);
	__u64 begin = hotspot_word(a, offset), from = hotspot_word(a, complete) >> (complete & 7) * 8;

	if (origin)
		begin = block + origin + hotspot_u32(a, offset);
	from = complete & CODE_SHORT ? (__s64)(__s16)from : (__s64)(__s32)from;
	if (complete == CODE_NO_OFFSET || (__s64)from <= 0)
		return 0; /* where a method is entered in a loop, HotSpot does not say */
	return t->ip - begin >= from;
}

/* The cache's entry for state.ip, which may be another one's; NULL: there is no cache. */
static __always_inline struct code_cache_entry *hotspot_cached(const struct unwind_state *t)
{
	struct code_cache *cache = env_code_cache();
	__u64 i = (__u32)t->ip * 2654435761u >> (32 - CODE_CACHE_BITS);

	BOUND(i, (1 << CODE_CACHE_BITS) - 1);
	return cache ? &cache->entries[i] : NULL;
}

/* What hotspot_code() returns for the block, whose header is left where hotspot_word() finds it. */
static __always_inline __u64 hotspot_header(struct unwind_area *a, struct segment *s, __u64 block)
{
	const __u64 at = a->state.heaps_at, used = HOTSPOT_OFFSET(s, at, used);
	__u64 bytes = HOTSPOT_OFFSET(s, at, bytes), name;
	__u32 words, id;

	BOUND(bytes, CODE_HEADER_BYTES - 1);
	if (!block || env_read_user(a->frames + HOTSPOT_SCRATCH, bytes, block) ||
	    !(hotspot_word(a, used) >> (used & 7) * 8 & 1))
		return 0;
	name = hotspot_word(a, HOTSPOT_OFFSET(s, at, name));
	id = hotspot_u32(a, HOTSPOT_OFFSET(s, at, compile_id)) & ((1u << FRAME_CODE_ID_BITS) - 1);
	if (!name)
		return 0;
	if (name == segment_u64(s, at + __builtin_offsetof(struct code_heaps, native)))
		return id;
	words = hotspot_u32(a, HOTSPOT_OFFSET(s, at, frame_words));
	if (name != segment_u64(s, at + __builtin_offsetof(struct code_heaps, method)) || words < 2 ||
	    words >> FRAME_CODE_WORDS_BITS)
		return 0;
	return (__u64)words << FRAME_CODE_ID_BITS | id;
}

/* As hotspot_code(), of another frame than the sample's own. */
static __always_inline __u64 hotspot_known(struct unwind_area *a, struct segment *s)
{
	struct code_cache_entry *e = hotspot_cached(&a->state);
	const __u64 ip = a->state.ip;
	__u64 block, code;

	if (e && e->ip == (__u32)ip && e->generation == a->record.generation) {
		code = hotspot_header(a, s, ip - (e->code >> CODE_CACHE_BACK_SHIFT));
		if (code == (e->code & ((1ull << CODE_CACHE_BACK_SHIFT) - 1)))
			return code;
	}
	block = hotspot_block(s, &a->state);
	code = hotspot_header(a, s, block);
	if (e && code && !((ip - block) >> (64 - CODE_CACHE_BACK_SHIFT)))
		*e = (struct code_cache_entry){(__u32)ip, a->record.generation,
					       (ip - block) << CODE_CACHE_BACK_SHIFT | code};
	return code;
}

/*
 * Which compiled method's code state.ip is in: the payload of a word with FRAME_TAG_CODE, with
 * FRAME_CODE_SURE where its frame stands, or has stood. The size of the frame is 0 for what calls
 * native methods: its frame has other parts, too. 0: in none.
 */
UNWIND_FN __u64 hotspot_code(void)
{
	struct unwind_area *a = env_area();
	struct segment *s;
	__u64 block, code;

	if (!a)
		return 0;
	s = env_segment(ref_segment(a->state.list));
	if (!s || !a->state.heaps_at)
		return 0;
	if (!a->state.innermost)
		return hotspot_known(a, s);
	block = hotspot_block(s, &a->state);
	code = hotspot_header(a, s, block);
	if (code >> FRAME_CODE_ID_BITS && hotspot_is_complete(a, s, block))
		code |= FRAME_CODE_SURE;
	return code;
}

/* How many classes were unloaded, and one more; 0: that is not known. */
UNWIND_FN __u32 hotspot_unloaded(void)
{
	struct unwind_area *a = env_area();
	__u64 at, own, shared;
	struct segment *s;

	if (!a)
		return 0;
	s = env_segment(ref_segment(a->state.list));
	if (!s || !a->state.heaps_at)
		return 0;
	at = a->state.heaps_at + __builtin_offsetof(struct code_heaps, unloaded);
	if (!segment_u64(s, at) || env_read_user(&own, sizeof own, segment_u64(s, at)) ||
	    env_read_user(&shared, sizeof shared, segment_u64(s, at + 8)))
		return 0;
	return (__u32)(own + shared + 1);
}

#endif
