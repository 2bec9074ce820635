// SPDX-License-Identifier: Apache-2.0
/*
 * The arena: memory shared with the BPF program, in segments that are made when needed under one byte budget.
 * Blocks are 64-byte aligned and named by ref (bpf/abi.h). A retired block is reused only after a grace
 * period in which every running program has ended: arena_grace_begin, wait for one, arena_grace_end. Rank 2.
 */
#ifndef PROFLET_UNWIND_ARENA_H
#define PROFLET_UNWIND_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;

/* Makes segment `index`: SEGMENT_VALUE zeroed bytes that outlive the arena. 0 or -errno. */
typedef int (*arena_segment_fn)(void *data, uint32_t index, void **ret);

/* A block; ref 0 is none. A plain value: who holds it owns the block. */
struct arena_block {
	uint32_t ref;
	uint32_t len; /* bytes */
};

/* Makes the first segment, with the process table at its start. 0, -EINVAL (budget under one segment),
 * -errno. */
int arena_new(struct arena **ret, size_t max_bytes, arena_segment_fn fn, void *data);
void arena_free(struct arena *a);
/* 0; -ENOSPC over the budget or for more than a segment (counted); -errno of the segment function. Content is
 * undefined. */
int arena_alloc(struct arena *a, size_t len, struct arena_block *ret);
/* The program may still be reading it: the bytes come back with the next grace period. ref 0 is fine. */
void arena_retire(struct arena *a, struct arena_block block);
/* The block's memory. Borrowed. */
void *arena_at(const struct arena *a, uint32_t ref);
/* A whole segment, NULL when there is none of this index. Borrowed. */
void *arena_segment(const struct arena *a, uint32_t index);
/* The start of segment 0: the process table. */
void *arena_process_table(const struct arena *a);

/* True when something waits: now let every program that runs end, then call arena_grace_end. One at a time.
 */
bool arena_grace_begin(struct arena *a);
void arena_grace_end(struct arena *a);

struct arena_stats {
	size_t max_bytes, segment_bytes, used_bytes, retired_bytes;
	uint64_t n_full; /* allocations refused by the budget */
};
void arena_stats(const struct arena *a, struct arena_stats *ret);

#endif
