// SPDX-License-Identifier: Apache-2.0
/*
 * Names of pods: keeps a table of them true to the kubelet, which a thread of its own asks. Without an answer
 * there are no names and all else goes on. Main loop only. Rank 3.
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
	uint64_t answered, failed; /* questions */
	uint64_t answered_ns;	   /* CLOCK_MONOTONIC, the last answer; 0: none yet */
	struct pod_table_stats table;
};

/* Asks at once, as soon as the loop runs. The configuration and the loop are borrowed. 0 or -errno. */
int metadata_new(struct metadata **ret, struct loop *loop, const struct config *config);
/* Before the loop goes. NULL is fine. */
void metadata_free(struct metadata *m);
/* A process of this workload was seen: if nothing is known of it, the kubelet is asked soon. */
void metadata_seen(struct metadata *m, const struct cgroup_identity *id);
/* Borrowed; it changes whenever the loop runs. */
const struct pod_table *metadata_pods(const struct metadata *m);
/* NULL: all zero. */
void metadata_stats(const struct metadata *m, struct metadata_stats *ret);

/* The kubelet's address: the configured one, or this node's, with its usual port. 0 or -ENOMEM. */
int metadata_url(const struct config *config, struct buf *b);
/*
 * Asks once, now, for `check`. 0 with the number of pods, or -errno as kubelet_ask has it with *ret_why = a
 * line for the operator (owned).
 */
int metadata_probe(const struct config *config, uint64_t timeout_ns, size_t *ret_pods, char **ret_why);

#endif
