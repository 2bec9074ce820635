// SPDX-License-Identifier: Apache-2.0
#include "agent/binary/binary_keys.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"

enum key_kind { BY_FILE, BY_INODE, BY_BUILD_ID };

struct binary_key {
	struct map_node node;
	enum key_kind kind;
	uint64_t dev, inode, size;
	struct timespec mtime;
	const char *build_id;
	uint32_t index;
};

static struct binary_key key_of(const struct stat *st)
{
	return (struct binary_key){
		.dev = st->st_dev, .inode = st->st_ino, .size = (uint64_t)st->st_size, .mtime = st->st_mtim};
}

static struct binary_key key_of_inode(dev_t dev, uint64_t inode)
{
	return (struct binary_key){.kind = BY_INODE, .dev = dev, .inode = inode};
}

static uint64_t key_hash(const struct binary_key *k)
{
	if (k->kind == BY_BUILD_ID)
		return hash_bytes(k->build_id, strlen(k->build_id));
	return hash_u64(k->inode ^ hash_u64(k->dev)) ^ hash_u64(k->size ^ (uint64_t)k->mtime.tv_nsec);
}

static bool key_is(const struct map_node *node, const void *key)
{
	const struct binary_key *a = container_of(node, struct binary_key, node), *b = key;

	if (a->kind != b->kind)
		return false;
	if (a->kind == BY_BUILD_ID)
		return strcmp(a->build_id, b->build_id) == 0;
	return a->inode == b->inode && a->size == b->size && a->dev == b->dev &&
	       a->mtime.tv_sec == b->mtime.tv_sec && a->mtime.tv_nsec == b->mtime.tv_nsec;
}

static struct binary_key *key_find(const struct binary_keys *k, const struct binary_key *key)
{
	struct map_node *n = map_find(&k->map, key_hash(key), key_is, key);

	return n ? container_of(n, struct binary_key, node) : NULL;
}

static uint32_t index_find(const struct binary_keys *k, const struct binary_key *key)
{
	const struct binary_key *found = key_find(k, key);

	return found ? found->index : 0;
}

/* A key that is there already leads to the new index from now on. */
static void key_add(struct binary_keys *k, const struct binary_key *key, uint32_t index)
{
	struct binary_key *copy = key_find(k, key);

	if (copy) {
		copy->index = index;
		return;
	}
	copy = malloc(sizeof *copy);
	if (!copy)
		return;
	*copy = *key;
	copy->index = index;
	if (map_insert(&k->map, &copy->node, key_hash(key)) < 0)
		free(copy);
}

void binary_keys_init(struct binary_keys *k, size_t max)
{
	map_init(&k->map, max);
}

void binary_keys_fini(struct binary_keys *k)
{
	struct map_node *n;

	map_for_each (&k->map, n, it)
		free(container_of(n, struct binary_key, node));
	map_fini(&k->map);
}

uint32_t binary_keys_find(const struct binary_keys *k, const struct stat *st)
{
	const struct binary_key key = key_of(st);

	return index_find(k, &key);
}

uint32_t binary_keys_find_id(const struct binary_keys *k, const char *build_id)
{
	return index_find(k, &(struct binary_key){.kind = BY_BUILD_ID, .build_id = build_id});
}

uint32_t binary_keys_find_inode(const struct binary_keys *k, dev_t dev, uint64_t inode)
{
	const struct binary_key key = key_of_inode(dev, inode);

	return index_find(k, &key);
}

void binary_keys_add(struct binary_keys *k, const struct stat *st, uint32_t index)
{
	const struct binary_key file = key_of(st), inode = key_of_inode(st->st_dev, st->st_ino);

	key_add(k, &file, index);
	key_add(k, &inode, index);
}

void binary_keys_add_id(struct binary_keys *k, const char *build_id, uint32_t index)
{
	key_add(k, &(struct binary_key){.kind = BY_BUILD_ID, .build_id = build_id}, index);
}

void binary_keys_forget(struct binary_keys *k, uint32_t index)
{
	struct map_node *n;

	map_for_each (&k->map, n, it) {
		struct binary_key *key = container_of(n, struct binary_key, node);

		if (key->index == index) {
			map_remove(&k->map, n);
			free(key);
		}
	}
}
