// SPDX-License-Identifier: Apache-2.0
/*
 * The arena: memory shared with the BPF program, in segments that are made when needed under one byte budget.
 * It is cut into blocks, 64-byte aligned and named by ref (bpf/abi.h). The arena knows the owner of every
 * block and accounts for every byte: used + retired + free = all of it.
 *
 * A retired block is reused only after a grace period in which every running program has ended:
 * arena_grace_begin, wait for the programs, arena_grace_end.
 *
 * Tables are placed from the low end of a segment and lists from the high end, so that the many small lists
 * do not cut up the room that large tables need. When the arena is full, arena_hold keeps a contiguous range
 * for one requester: the caller evicts the tables in it, and nobody else gets the bytes when they are free.
 */
#ifndef PROFLET_UNWIND_ARENA_H
#define PROFLET_UNWIND_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;

/* Makes segment `index`: SEGMENT_VALUE zeroed bytes that outlive the arena. 0 or -errno. */
typedef int (*arena_segment_fn)(void *data, uint32_t index, void **ret);

enum arena_kind { ARENA_TABLE, ARENA_LIST };

/* Whose a block is: the id is a file index for tables, a number of the publisher's for lists. */
struct arena_owner {
	enum arena_kind kind;
	uint64_t id;
};

/* A block; ref 0 is none. A plain value: who holds it owns the block. */
struct arena_block {
	uint32_t ref;
	uint32_t len; /* bytes */
	/* Stands in the block's header (BLOCK_GENERATION, bpf/abi.h), where the owner writes it; cleared when
	 * the block is free again. Grows with every block; wraps around. */
	uint32_t generation;
};

/* Makes the first segment, with the process table at its start. 0, -EINVAL (budget under one segment),
 * -errno. */
int arena_new(struct arena **ret, size_t max_bytes, arena_segment_fn fn, void *data);
void arena_free(struct arena *a);
/* 0; -ENOSPC over the budget or for more than a segment (counted); -ENOMEM; -errno of the segment function.
 * Content is undefined. */
int arena_alloc(struct arena *a, size_t len, struct arena_owner owner, struct arena_block *ret);
/* The program may still be reading it: the bytes come back with the next grace period. ref 0 is fine. */
void arena_retire(struct arena *a, struct arena_block block);
/* The block's memory. Borrowed. */
void *arena_at(const struct arena *a, uint32_t ref);
/* A whole segment, NULL when there is none of this index. Borrowed. */
void *arena_segment(const struct arena *a, uint32_t index);
/* The start of segment 0: the process table. */
void *arena_process_table(const struct arena *a);

/* True when blocks wait: now let every program that runs end, then call arena_grace_end. One at a time. */
bool arena_grace_begin(struct arena *a);
void arena_grace_end(struct arena *a);

/* A contiguous range kept for one requester; id 0 is none. A plain value, as arena_block. */
struct arena_hold {
	uint32_t id, segment, offset, len;
};

#define ARENA_KEEP UINT64_MAX
struct arena_eviction {
	/* When the table of this owner was used last; ARENA_KEEP: it must stay. */
	uint64_t (*last_used)(uint64_t id, void *data);
	/* Called for each block of a table in the range: retire it. Blocks elsewhere may be retired, too. */
	void (*evict)(uint64_t id, void *data);
	void *data;
};

/*
 * Keeps a range of at least `len` bytes, made of free and retired blocks and of tables, which `e` evicts.
 * Takes the range whose most recently used table is the oldest; of equals, the one that evicts fewer bytes.
 * 0, -ENOSPC (there is none; nothing was evicted), -ENOMEM.
 */
int arena_hold(struct arena *a, size_t len, const struct arena_eviction *e, struct arena_hold *ret);
/* Makes a block of `len` bytes in the range, and gives up the rest of it and the hold. 0, -EAGAIN: programs
 * may still be reading there, the hold stays; -ENOSPC: the range is too short; -ENOMEM. */
int arena_claim(struct arena *a, struct arena_hold *hold, size_t len, struct arena_owner owner,
		struct arena_block *ret);
/* Gives the range up. Does nothing for id 0. */
void arena_unhold(struct arena *a, struct arena_hold *hold);

struct arena_stats {
	size_t max_bytes, segment_bytes;	      /* limit; made of it */
	size_t used_bytes, retired_bytes, free_bytes; /* in blocks; their sum is total_bytes */
	size_t held_bytes;			      /* of the free ones, kept for a requester */
	size_t total_bytes;			      /* of all segments, without the process table */
	uint64_t n_full;			      /* allocations refused by the budget */
};
void arena_stats(const struct arena *a, struct arena_stats *ret);

enum arena_state { ARENA_FREE, ARENA_USED, ARENA_RETIRED };
/* A stretch of a segment as the arena accounts for it; owner is that of a used or retired block. */
struct arena_extent {
	uint32_t segment, offset, len;
	enum arena_state state;
	bool held; /* kept for one requester */
	struct arena_owner owner;
};
/* Calls fn for every stretch, in ascending order: without gaps, they make up all segments but the process
 * table. */
void arena_each(const struct arena *a, void (*fn)(const struct arena_extent *e, void *data), void *data);

#endif
