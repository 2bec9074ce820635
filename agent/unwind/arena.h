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

/* Who owns a block. The id is a file index for tables, and a number that the publisher gives for lists. */
struct arena_owner {
	enum arena_kind kind;
	uint64_t id;
};

/* A block; ref 0 is none. A plain value: whoever keeps it owns the block, and retires it. */
struct arena_block {
	uint32_t ref;
	uint32_t len; /* bytes */
	/*
	 * Each block gets the next generation; the number wraps around. The owner writes it to the block's
	 * header (BLOCK_GENERATION, bpf/abi.h), and the arena clears it there when the block is free again.
	 */
	uint32_t generation;
};

/*
 * Makes the first segment, with the process table at its start. 0, -EINVAL (the budget is less than one
 * segment), -ENOMEM, -errno of the segment function.
 */
int arena_new(struct arena **ret, size_t max_bytes, arena_segment_fn fn, void *data);
void arena_free(struct arena *a);
/*
 * Makes a block of `len` bytes, whose content is undefined. 0; -ENOSPC when it would exceed the budget or is
 * longer than a segment (counted); -ENOMEM; -errno of the segment function.
 */
int arena_alloc(struct arena *a, size_t len, struct arena_owner owner, struct arena_block *ret);
/*
 * Gives the block back. A running program may still read it, so its bytes become free with the end of the
 * next grace period. Does nothing for ref 0.
 */
void arena_retire(struct arena *a, struct arena_block block);
/* The block's memory. Borrowed. */
void *arena_at(const struct arena *a, uint32_t ref);
/* A whole segment, NULL when there is none with this index. Borrowed. */
void *arena_segment(const struct arena *a, uint32_t index);
/* The start of segment 0: the process table. */
void *arena_process_table(const struct arena *a);

/*
 * Begins a grace period for all blocks that are retired so far. True: wait until every program that runs now
 * has ended, then call arena_grace_end. False: no block is retired, or a grace period is under way.
 */
bool arena_grace_begin(struct arena *a);
void arena_grace_end(struct arena *a);

/* A contiguous range that is reserved for one requester; id 0 is none. A plain value, as arena_block. */
struct arena_hold {
	uint32_t id, segment, offset, len;
};

#define ARENA_KEEP UINT64_MAX
/* What arena_hold needs to know about tables, and how it evicts them. */
struct arena_eviction {
	/* The time at which the table of this owner was last used; ARENA_KEEP: it must not be evicted. */
	uint64_t (*last_used)(uint64_t id, void *data);
	/* Called for each table block in the range: retire it. May also retire blocks elsewhere. */
	void (*evict)(uint64_t id, void *data);
	void *data;
};

/*
 * Reserves a contiguous range of at least `len` bytes that consists of free space, retired blocks and tables;
 * the tables are evicted through `e`. Of all such ranges it takes the one whose most recently used table was
 * used longest ago, and of equals the one that evicts fewer bytes. 0, -ENOSPC (there is none; nothing was
 * evicted), -ENOMEM.
 */
int arena_hold(struct arena *a, size_t len, const struct arena_eviction *e, struct arena_hold *ret);
/*
 * Makes a block of `len` bytes in the range, and ends the reservation. 0; -EAGAIN: not all of the range is
 * free yet, and the reservation stays; -ENOSPC: the range is too short; -ENOMEM.
 */
int arena_claim(struct arena *a, struct arena_hold *hold, size_t len, struct arena_owner owner,
		struct arena_block *ret);
/* Ends the reservation. Does nothing for id 0. */
void arena_unhold(struct arena *a, struct arena_hold *hold);

struct arena_stats {
	size_t max_bytes, segment_bytes;	      /* the budget; memory of the segments made so far */
	size_t used_bytes, retired_bytes, free_bytes; /* their sum is total_bytes */
	size_t held_bytes;			      /* of free_bytes, reserved for a requester */
	size_t total_bytes;			      /* of all segments, without the process table */
	uint64_t n_full;			      /* allocations refused by the budget */
};
void arena_stats(const struct arena *a, struct arena_stats *ret);

enum arena_state { ARENA_FREE, ARENA_USED, ARENA_RETIRED };
/* A block or a free range of a segment, as the arena accounts for it. A free range has no owner. */
struct arena_extent {
	uint32_t segment, offset, len;
	enum arena_state state;
	bool held; /* part of a range that is reserved for a requester */
	struct arena_owner owner;
};
/* Calls fn for every extent, ascending. Together they cover all segments, except the process table. */
void arena_each(const struct arena *a, void (*fn)(const struct arena_extent *e, void *data), void *data);

#endif
