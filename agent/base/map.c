// SPDX-License-Identifier: Apache-2.0
#include "agent/base/map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void map_init(struct map *m, size_t max_entries)
{
	*m = (struct map){.max = max_entries};
}

void map_fini(struct map *m)
{
	free(m->buckets);
	m->buckets = NULL;
	m->n_buckets = m->len = 0;
}

static struct map_node **bucket_of(const struct map *m, uint64_t hash)
{
	return &m->buckets[hash & (m->n_buckets - 1)];
}

struct map_node *map_find(const struct map *m, uint64_t hash, map_eq_fn eq, const void *key)
{
	if (!m->n_buckets)
		return NULL;
	for (struct map_node *n = *bucket_of(m, hash); n; n = n->next)
		if (n->hash == hash && eq(n, key))
			return n;
	return NULL;
}

static int grow(struct map *m)
{
	struct map_node **old = m->buckets, **buckets;
	size_t n_old = m->n_buckets, n = n_old ? n_old * 2 : 16;

	buckets = calloc(n, sizeof *buckets);
	if (!buckets)
		return n_old ? 0 : -ENOMEM; /* an overfull table still works */
	m->buckets = buckets;
	m->n_buckets = n;
	for (size_t i = 0; i < n_old; i++) {
		for (struct map_node *e = old[i], *next; e; e = next) {
			struct map_node **b = bucket_of(m, e->hash);

			next = e->next;
			e->next = *b;
			*b = e;
		}
	}
	free(old);
	return 0;
}

int map_insert(struct map *m, struct map_node *node, uint64_t hash)
{
	struct map_node **b;
	int r;

	if (m->len >= m->max) {
		m->n_full++;
		return -ENOSPC;
	}
	if (m->len >= m->n_buckets) {
		r = grow(m);
		if (r < 0)
			return r;
	}
	b = bucket_of(m, hash);
	node->hash = hash;
	node->next = *b;
	*b = node;
	m->len++;
	return 0;
}

void map_remove(struct map *m, struct map_node *node)
{
	struct map_node **p = bucket_of(m, node->hash);

	while (*p != node)
		p = &(*p)->next;
	*p = node->next;
	node->next = NULL;
	m->len--;
}

static struct map_node *scan(const struct map *m, size_t *bucket, struct map_node **next)
{
	for (; *bucket < m->n_buckets; (*bucket)++) {
		struct map_node *n = m->buckets[*bucket];

		if (n) {
			(*bucket)++;
			*next = n->next;
			return n;
		}
	}
	return NULL;
}

struct map_node *map_first(const struct map *m, size_t *bucket, struct map_node **next)
{
	*bucket = 0;
	return scan(m, bucket, next);
}

struct map_node *map_next(const struct map *m, size_t *bucket, struct map_node **next)
{
	struct map_node *n = *next;

	if (!n)
		return scan(m, bucket, next);
	*next = n->next;
	return n;
}

uint64_t hash_u64(uint64_t x)
{
	/* The finaliser of MurmurHash3: full avalanche in two multiplications. */
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdull;
	x ^= x >> 33;
	x *= 0xc4ceb9fe1a85ec53ull;
	return x ^ x >> 33;
}

uint64_t hash_bytes(const void *data, size_t len)
{
	const uint8_t *p = data;
	uint64_t h = 0x9e3779b97f4a7c15ull ^ len, w;

	for (; len >= 8; p += 8, len -= 8) {
		memcpy(&w, p, 8);
		h = (h ^ hash_u64(w)) * 0x9fb21c651e98df25ull;
	}
	if (len) {
		w = 0;
		memcpy(&w, p, len);
		h = (h ^ hash_u64(w)) * 0x9fb21c651e98df25ull;
	}
	return hash_u64(h);
}
