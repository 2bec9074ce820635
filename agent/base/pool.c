// SPDX-License-Identifier: Apache-2.0
#include "agent/base/pool.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>

#define ALIGN alignof(max_align_t)

struct pool_chunk {
	struct pool_chunk *next;
	size_t used, size;
	alignas(max_align_t) uint8_t bytes[];
};

void *pool_take(struct pool *p, size_t size)
{
	struct pool_chunk *c = p->first;
	void *ret;

	if (size > SIZE_MAX - sizeof *c - ALIGN)
		return NULL;
	size = (size + ALIGN - 1) & ~(ALIGN - 1);
	if (!c || c->size - c->used < size) {
		size_t room = POOL_CHUNK_BYTES - sizeof *c;

		room = size > room ? size : room;
		c = malloc(sizeof *c + room);
		if (!c)
			return NULL;
		*c = (struct pool_chunk){.next = p->first, .size = room};
		p->first = c;
	}
	ret = c->bytes + c->used;
	c->used += size;
	return ret;
}

void pool_fini(struct pool *p)
{
	for (struct pool_chunk *c = p->first, *next; c; c = next) {
		next = c->next;
		free(c);
	}
	p->first = NULL;
}
