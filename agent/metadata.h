// SPDX-License-Identifier: Apache-2.0
/*
 * Names of pods: has the delivery process request the list of pods from the kubelet, and updates a table of
 * pods with it. Without an answer there are no names; everything else works. Main loop only.
 */
#ifndef PROFLET_METADATA_H
#define PROFLET_METADATA_H

#include <stdint.h>

#include "cgroup/podtable.h"

struct config;
struct delivery;
struct loop;
struct metadata;

struct metadata_stats {
	uint64_t answered, failed; /* requests */
	uint64_t answered_ns;	   /* CLOCK_MONOTONIC of the last answer; 0: none yet */
	struct pod_table_stats table;
};

/*
 * Sends the first request when the loop begins to run. Loop and delivery are borrowed, the configuration for
 * the call. 0 or -errno.
 */
int metadata_new(struct metadata **ret, struct loop *loop, const struct config *config,
		 struct delivery *delivery);
/* Call before the loop is freed. NULL is fine. */
void metadata_free(struct metadata *m);
/* A process of this workload was seen. If the workload is unknown, a request to the kubelet follows soon. */
void metadata_seen(struct metadata *m, const struct cgroup_identity *id);
/* Borrowed; it may change whenever the loop runs. */
const struct pod_table *metadata_pods(const struct metadata *m);
/* NULL: all zero. */
void metadata_stats(const struct metadata *m, struct metadata_stats *ret);

#endif
