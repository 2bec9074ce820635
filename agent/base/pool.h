// SPDX-License-Identifier: Apache-2.0
/* An allocator for pieces of any size that are freed only all at once. */
#ifndef PROFLET_BASE_POOL_H
#define PROFLET_BASE_POOL_H

#include <stddef.h>

struct pool_chunk;

/* Zeroed is fine. */
struct pool {
	struct pool_chunk *first; /* owned; pieces are taken from this one */
};

#define POOL_CHUNK_BYTES (64u << 10) /* allocated at a time; a larger piece gets its own chunk */

/* `size` bytes aligned for any type, not zeroed; NULL: out of memory. */
void *pool_take(struct pool *p, size_t size);
void pool_fini(struct pool *p); /* frees all; usable again */

#endif
