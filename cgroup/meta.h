// SPDX-License-Identifier: Apache-2.0
/*
 * One entry for each workload seen on the host (a container, a pod without container, or a systemd unit) in a
 * bounded cache. The report holds a reference while it has samples of the workload; a full cache forgets the
 * entry that was least recently requested. Single threaded.
 */
#ifndef PROFLET_CGROUP_META_H
#define PROFLET_CGROUP_META_H

#include <stddef.h>
#include <stdint.h>

#include "cgroup/path.h"

struct cgroup_meta_cache;

/* Immutable. Lives until the last reference is dropped, even after the cache has forgotten it. */
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
/* Referenced entries stay alive. NULL is fine. */
void cgroup_meta_cache_free(struct cgroup_meta_cache *c);
/*
 * The entry of `id`, created if there is none. *ret holds a reference, to be dropped with cgroup_meta_unref.
 * An empty identity has an entry, too. Two identities are the same workload when container id, pod uid,
 * unit and tenant are equal. 0 or -ENOMEM.
 */
int cgroup_meta_get(struct cgroup_meta_cache *c, const struct cgroup_identity *id, struct cgroup_meta **ret);
struct cgroup_meta *cgroup_meta_ref(struct cgroup_meta *m);
void cgroup_meta_unref(struct cgroup_meta *m); /* NULL is fine */
/*
 * A short name of the workload: the first 12 digits of the container id, as docker prints them, else the pod
 * uid, else the unit; "" for none. Returns `ret`.
 */
const char *cgroup_meta_label(const struct cgroup_meta *m, char ret[CGROUP_UNIT_MAX]);
void cgroup_meta_cache_stats(const struct cgroup_meta_cache *c, struct cgroup_meta_stats *ret);

#endif
