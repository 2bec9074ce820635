// SPDX-License-Identifier: Apache-2.0
/*
 * The pods of this node by container id and by pod UID, updated from the kubelet's lists. Pods that have
 * ended remain for a while, because samples of them may still wait in the agent. Single threaded.
 */
#ifndef PROFLET_CGROUP_PODTABLE_H
#define PROFLET_CGROUP_PODTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cgroup/path.h"
#include "cgroup/pods.h"

#define POD_KEEP_NS (300ull * 1000000000ull) /* after it was listed last */

struct pod_table;

struct pod_table_stats {
	uint64_t pods, containers; /* in the last list */
	uint64_t entries;	   /* ids and UIDs, also of pods that have ended */
	uint64_t refused;	   /* ids and UIDs that found no room */
	uint64_t left_out;	   /* by pod_list_parse, sum over all lists */
};

/* `max_entries`: container ids and pod UIDs together. 0, -EINVAL for 0, -ENOMEM. */
int pod_table_new(struct pod_table **ret, size_t max_entries);
void pod_table_free(struct pod_table *t); /* NULL is fine */
/* Takes over a list that was requested at `now_ns`, CLOCK_MONOTONIC, and empties it. Times must ascend. */
void pod_table_update(struct pod_table *t, struct pod_list *list, uint64_t now_ns);
/*
 * Finds the pod of a workload, and its container if that is listed (*ret_container, else NULL). NULL:
 * unknown. Borrowed until the next update.
 */
const struct pod *pod_table_find(const struct pod_table *t, const struct cgroup_identity *id,
				 const struct pod_container **ret_container);
void pod_table_stats(const struct pod_table *t, struct pod_table_stats *ret);

#endif
