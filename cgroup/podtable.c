// SPDX-License-Identifier: Apache-2.0
/* There is one entry for each id of a pod: its one or two UIDs, and the ids of its containers. */
#include "cgroup/podtable.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/map.h"

#define OF_POD SIZE_MAX /* instead of the index of a container */

struct entry {
	struct map_node node;
	char key[CGROUP_ID_LEN + 1];
	struct pod *pod; /* one reference */
	size_t container;
	uint64_t seen_ns; /* when it was listed last */
};

struct pod_table {
	struct map map;
	struct pod_table_stats stats;
};

static bool entry_is(const struct map_node *node, const void *key)
{
	return strcmp(container_of(node, struct entry, node)->key, key) == 0;
}

static struct entry *find(const struct pod_table *t, const char *key)
{
	struct map_node *n = *key ? map_find(&t->map, hash_bytes(key, strlen(key)), entry_is, key) : NULL;

	return n ? container_of(n, struct entry, node) : NULL;
}

static void forget(struct pod_table *t, struct entry *e)
{
	map_remove(&t->map, &e->node);
	pod_unref(e->pod);
	free(e);
}

/* Forgets entries that were not listed since `since_ns`. */
static void forget_before(struct pod_table *t, uint64_t since_ns)
{
	struct map_node *n;

	map_for_each (&t->map, n, i) {
		struct entry *e = container_of(n, struct entry, node);

		if (e->seen_ns < since_ns)
			forget(t, e);
	}
}

int pod_table_new(struct pod_table **ret, size_t max_entries)
{
	struct pod_table *t;

	if (!max_entries)
		return -EINVAL;
	t = calloc(1, sizeof *t);
	if (!t)
		return -ENOMEM;
	map_init(&t->map, max_entries);
	*ret = t;
	return 0;
}

void pod_table_free(struct pod_table *t)
{
	if (!t)
		return;
	forget_before(t, UINT64_MAX);
	map_fini(&t->map);
	free(t);
}

/* Adds an entry. 0, -ENOSPC, -ENOMEM. */
static int add(struct pod_table *t, const char *key, struct entry **ret)
{
	_cleanup_free_ struct entry *e = calloc(1, sizeof *e);
	size_t n = strlen(key);
	int r;

	if (!e)
		return -ENOMEM;
	memcpy(e->key, key, n);
	r = map_insert(&t->map, &e->node, hash_bytes(key, n));
	if (r == 0)
		*ret = TAKE_PTR(e);
	return r;
}

/* Lets the key refer to the pod, or to a container of it. */
static void put(struct pod_table *t, const char *key, struct pod *p, size_t container, uint64_t now_ns)
{
	struct entry *e;

	if (!key || !*key || strlen(key) > CGROUP_ID_LEN)
		return;
	e = find(t, key);
	if (!e && add(t, key, &e) < 0) {
		forget_before(t, now_ns); /* ended pods are forgotten early to make room */
		if (add(t, key, &e) < 0) {
			t->stats.refused++;
			return;
		}
	}
	pod_unref(e->pod);
	e->pod = pod_ref(p);
	e->container = container;
	e->seen_ns = now_ns;
}

void pod_table_update(struct pod_table *t, struct pod_list *list, uint64_t now_ns)
{
	t->stats.pods = list->n;
	t->stats.containers = 0;
	t->stats.left_out += list->n_left_out;
	for (size_t i = 0; i < list->n; i++) /* refresh listed pods first, so that they are not forgotten */
		for (size_t k = 0; k < list->items[i]->n_containers; k++) {
			struct entry *e = find(t, list->items[i]->containers[k].id);

			if (e)
				e->seen_ns = now_ns;
		}
	for (size_t i = 0; i < list->n; i++) {
		struct pod *p = list->items[i];

		put(t, p->uid, p, OF_POD, now_ns);
		put(t, p->other_uid, p, OF_POD, now_ns);
		for (size_t k = 0; k < p->n_containers; k++) {
			put(t, p->containers[k].id, p, k, now_ns);
			t->stats.containers += p->containers[k].id[0] != '\0';
		}
	}
	forget_before(t, now_ns > POD_KEEP_NS ? now_ns - POD_KEEP_NS : 0);
	pod_list_fini(list);
}

const struct pod *pod_table_find(const struct pod_table *t, const struct cgroup_identity *id,
				 const struct pod_container **ret_container)
{
	const struct entry *e = find(t, id->container_id);

	*ret_container = NULL;
	if (e && e->container != OF_POD) {
		*ret_container = &e->pod->containers[e->container];
		return e->pod;
	}
	e = find(t, id->pod_uid);
	return e ? e->pod : NULL;
}

void pod_table_stats(const struct pod_table *t, struct pod_table_stats *ret)
{
	*ret = t->stats;
	ret->entries = t->map.len;
}
