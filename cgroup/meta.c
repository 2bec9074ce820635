// SPDX-License-Identifier: Apache-2.0
#include "cgroup/meta.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/map.h"

/* The cache owns one reference to each entry; `older` and `newer` order the entries by their last request. */
struct entry {
	struct cgroup_meta meta;
	struct map_node node;
	struct entry *older, *newer;
	uint32_t refs;
};

struct cgroup_meta_cache {
	struct map map;
	struct entry *oldest, *newest;
	struct cgroup_meta_stats stats;
};

static bool entry_is(const struct map_node *node, const void *key)
{
	const struct cgroup_identity *a = &container_of(node, struct entry, node)->meta.identity, *b = key;

	return strcmp(a->container_id, b->container_id) == 0 && strcmp(a->pod_uid, b->pod_uid) == 0 &&
	       strcmp(a->unit, b->unit) == 0 && a->tenant == b->tenant;
}

static uint64_t hash_identity(const struct cgroup_identity *id)
{
	uint64_t h = hash_bytes(id->container_id, strlen(id->container_id));

	h = hash_u64(h ^ hash_bytes(id->pod_uid, strlen(id->pod_uid)));
	return hash_u64(h ^ hash_bytes(id->unit, strlen(id->unit)) ^ id->tenant);
}

static void unlink_entry(struct cgroup_meta_cache *c, struct entry *e)
{
	*(e->older ? &e->older->newer : &c->oldest) = e->newer;
	*(e->newer ? &e->newer->older : &c->newest) = e->older;
	e->older = e->newer = NULL;
}

static void link_newest(struct cgroup_meta_cache *c, struct entry *e)
{
	e->older = c->newest;
	*(c->newest ? &c->newest->newer : &c->oldest) = e;
	c->newest = e;
}

static void forget(struct cgroup_meta_cache *c, struct entry *e)
{
	map_remove(&c->map, &e->node);
	unlink_entry(c, e);
	cgroup_meta_unref(&e->meta);
}

int cgroup_meta_cache_new(struct cgroup_meta_cache **ret, size_t max_entries)
{
	struct cgroup_meta_cache *c;

	if (!max_entries)
		return -EINVAL;
	c = calloc(1, sizeof *c);
	if (!c)
		return -ENOMEM;
	map_init(&c->map, max_entries);
	*ret = c;
	return 0;
}

void cgroup_meta_cache_free(struct cgroup_meta_cache *c)
{
	if (!c)
		return;
	while (c->oldest)
		forget(c, c->oldest);
	map_fini(&c->map);
	free(c);
}

static int add(struct cgroup_meta_cache *c, const struct cgroup_identity *id, uint64_t hash,
	       struct entry **ret)
{
	_cleanup_free_ struct entry *e = calloc(1, sizeof *e);
	int r;

	if (!e)
		return -ENOMEM;
	e->meta.identity = *id;
	e->refs = 1;
	if (c->map.len >= c->map.max) {
		forget(c, c->oldest);
		c->stats.n_evicted++;
	}
	r = map_insert(&c->map, &e->node, hash);
	if (r < 0)
		return r;
	link_newest(c, e);
	*ret = TAKE_PTR(e);
	return 0;
}

int cgroup_meta_get(struct cgroup_meta_cache *c, const struct cgroup_identity *id, struct cgroup_meta **ret)
{
	uint64_t hash = hash_identity(id);
	struct map_node *node = map_find(&c->map, hash, entry_is, id);
	struct entry *e = NULL;

	if (node) {
		e = container_of(node, struct entry, node);
		unlink_entry(c, e);
		link_newest(c, e);
		c->stats.n_hits++;
	} else {
		int r = add(c, id, hash, &e);

		if (r < 0)
			return r;
		c->stats.n_misses++;
	}
	*ret = cgroup_meta_ref(&e->meta);
	return 0;
}

struct cgroup_meta *cgroup_meta_ref(struct cgroup_meta *m)
{
	container_of(m, struct entry, meta)->refs++;
	return m;
}

void cgroup_meta_unref(struct cgroup_meta *m)
{
	if (m && --container_of(m, struct entry, meta)->refs == 0)
		free(container_of(m, struct entry, meta));
}

const char *cgroup_meta_label(const struct cgroup_meta *m, char ret[CGROUP_UNIT_MAX])
{
	const struct cgroup_identity *id = &m->identity;

	if (id->container_id[0])
		snprintf(ret, CGROUP_UNIT_MAX, "%.12s", id->container_id);
	else
		snprintf(ret, CGROUP_UNIT_MAX, "%s", id->pod_uid[0] ? id->pod_uid : id->unit);
	return ret;
}

void cgroup_meta_cache_stats(const struct cgroup_meta_cache *c, struct cgroup_meta_stats *ret)
{
	*ret = c->stats;
	ret->entries = c->map.len;
}
