// SPDX-License-Identifier: Apache-2.0
/* Memory that is only ever taken, in pieces of any size, and given back as a whole. Rank 0. */
#ifndef PROFLET_BASE_POOL_H
#define PROFLET_BASE_POOL_H

#include <stddef.h>

struct pool_chunk;

/* Zeroed is fine. */
struct pool {
	struct pool_chunk *first; /* owned; the one that pieces come from */
};

#define POOL_CHUNK_BYTES (64u << 10) /* asked of malloc at a time; a larger piece has a chunk of its own */

/* `size` bytes aligned for any type, not zeroed; NULL: no memory. */
void *pool_take(struct pool *p, size_t size);
void pool_fini(struct pool *p); /* frees all; usable again */

#endif
