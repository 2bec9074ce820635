// SPDX-License-Identifier: Apache-2.0
/*
 * What is known of each workload seen on the host: one entry per container, pod without container, or
 * systemd unit, in a cache with a maximum. The report takes a reference for as long as it holds samples of
 * the workload; the cache forgets the entry that was asked for longest ago. Single threaded. Rank 1.
 */
#ifndef PROFLET_CGROUP_META_H
#define PROFLET_CGROUP_META_H

#include <stddef.h>
#include <stdint.h>

#include "cgroup/path.h"

struct cgroup_meta_cache;

/* Immutable while shared; alive until the last reference is dropped, also when the cache has forgotten it. */
struct cgroup_meta {
	struct cgroup_identity identity;
};

struct cgroup_meta_stats {
	size_t entries;
	uint64_t n_hits, n_misses;
	uint64_t n_evicted; /* entries forgotten because the cache was full */
};

/* 0, -EINVAL for a maximum of 0, -ENOMEM. */
int cgroup_meta_cache_new(struct cgroup_meta_cache **ret, size_t max_entries);
/* Entries that are still referenced live on. NULL is fine. */
void cgroup_meta_cache_free(struct cgroup_meta_cache *c);
/*
 * The entry of `id`, made when there is none yet. *ret holds a reference, return it with cgroup_meta_unref.
 * An empty identity has an entry, too. Two identities are the same workload when container id, pod uid and
 * unit are equal. 0 or -ENOMEM.
 */
int cgroup_meta_get(struct cgroup_meta_cache *c, const struct cgroup_identity *id, struct cgroup_meta **ret);
struct cgroup_meta *cgroup_meta_ref(struct cgroup_meta *m);
void cgroup_meta_unref(struct cgroup_meta *m); /* NULL is fine */
/*
 * How to call the workload where there is little room: the first 12 digits of the container id as docker
 * prints them, else the pod uid, else the unit; "" for none. Returns `ret`.
 */
const char *cgroup_meta_label(const struct cgroup_meta *m, char ret[CGROUP_UNIT_MAX]);
void cgroup_meta_cache_stats(const struct cgroup_meta_cache *c, struct cgroup_meta_stats *ret);

#endif
