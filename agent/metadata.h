// SPDX-License-Identifier: Apache-2.0
/*
 * Names of pods: requests the list of pods from the kubelet on a thread of its own, and updates a table of
 * pods with it. Without an answer there are no names; everything else works. Main loop only.
 */
#ifndef PROFLET_METADATA_H
#define PROFLET_METADATA_H

#include <stdint.h>

#include "cgroup/podtable.h"

struct buf;
struct config;
struct loop;
struct metadata;

struct metadata_stats {
	uint64_t answered, failed; /* requests */
	uint64_t answered_ns;	   /* CLOCK_MONOTONIC of the last answer; 0: none yet */
	struct pod_table_stats table;
};

/* Sends the first request when the loop begins to run. Configuration and loop are borrowed. 0 or -errno. */
int metadata_new(struct metadata **ret, struct loop *loop, const struct config *config);
/* Call before the loop is freed. NULL is fine. */
void metadata_free(struct metadata *m);
/* A process of this workload was seen. If the workload is unknown, a request to the kubelet follows soon. */
void metadata_seen(struct metadata *m, const struct cgroup_identity *id);
/* Borrowed; it may change whenever the loop runs. */
const struct pod_table *metadata_pods(const struct metadata *m);
/* NULL: all zero. */
void metadata_stats(const struct metadata *m, struct metadata_stats *ret);

/* Appends the kubelet's URL: the configured one, or this node's address with the usual port. 0 or -ENOMEM. */
int metadata_url(const struct config *config, struct buf *b);
/*
 * Requests the list from the kubelet once, now, for `check`. 0 with the number of pods; or -errno as
 * kubelet_fetch, with *ret_why = a line for the operator (owned).
 */
int metadata_probe(const struct config *config, uint64_t timeout_ns, size_t *ret_pods, char **ret_why);

#endif
