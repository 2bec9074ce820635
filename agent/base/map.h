// SPDX-License-Identifier: Apache-2.0
/*
 * An intrusive hash map with a maximum: entries embed a struct map_node and stay owned by the caller.
 *
 *	struct thing { struct map_node node; uint32_t id; };
 *	struct map_node *n = map_find(&m, hash_u64(7), thing_is, &id);
 *	map_for_each(&m, n, i) use(container_of(n, struct thing, node));
 *
 * The node under iteration may be removed and freed inside map_for_each; no other may.
 */
#ifndef PROFLET_BASE_MAP_H
#define PROFLET_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map_node {
	struct map_node *next;
	uint64_t hash;
};

struct map {
	struct map_node **buckets; /* owned */
	size_t n_buckets, len;
	size_t max;	 /* entries */
	uint64_t n_full; /* inserts refused because of max */
};

typedef bool (*map_eq_fn)(const struct map_node *node, const void *key);

void map_init(struct map *m, size_t max_entries);
/*
 * Frees the buckets, not the entries. A caller that finds its entries only through the map frees them before.
 */
void map_fini(struct map *m);
/* The entry with this hash for which eq(entry, key) holds, or NULL. Borrowed. */
struct map_node *map_find(const struct map *m, uint64_t hash, map_eq_fn eq, const void *key);
/* 0, -ENOMEM, or -ENOSPC at the maximum (counted). Does not look for an equal entry. */
int map_insert(struct map *m, struct map_node *node, uint64_t hash);
/* Takes `node` out; it must be in the map. */
void map_remove(struct map *m, struct map_node *node);
/* Iteration helpers of map_for_each. */
struct map_node *map_first(const struct map *m, size_t *bucket, struct map_node **next);
struct map_node *map_next(const struct map *m, size_t *bucket, struct map_node **next);

#define map_for_each(m, n, it)                                        \
	for (struct {                                                 \
		     size_t bucket;                                   \
		     struct map_node *next;                           \
	     } it = {0, NULL};                                        \
	     it.bucket != SIZE_MAX; it.bucket = SIZE_MAX)             \
		for ((n) = map_first((m), &it.bucket, &it.next); (n); \
		     (n) = map_next((m), &it.bucket, &it.next))

uint64_t hash_u64(uint64_t x);
uint64_t hash_bytes(const void *data, size_t len); /* an attacker can construct collisions */

#endif
