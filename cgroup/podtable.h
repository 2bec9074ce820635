// SPDX-License-Identifier: Apache-2.0
/*
 * The pods of this node by container id and by pod UID, kept up to date from the kubelet's lists. Pods that
 * are gone stay for a while: samples of theirs are still on the way. Single threaded. Rank 1.
 */
#ifndef PROFLET_CGROUP_PODTABLE_H
#define PROFLET_CGROUP_PODTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cgroup/path.h"
#include "cgroup/pods.h"

#define POD_KEEP_NS (300ull * 1000000000ull) /* after the kubelet has left it out */

struct pod_table;

struct pod_table_stats {
	uint64_t pods, containers; /* in the last list */
	uint64_t entries;	   /* kept: ids and UIDs, also of what is gone */
	uint64_t refused;	   /* ids and UIDs that found no room */
	uint64_t left_out;	   /* by pod_list_parse, of all lists */
};

/* `max_entries`: container ids and pod UIDs together. 0, -EINVAL for 0, -ENOMEM. */
int pod_table_new(struct pod_table **ret, size_t max_entries);
void pod_table_free(struct pod_table *t); /* NULL is fine */
/* Takes in a list (which is ended by it) that was asked for at `now_ns`, CLOCK_MONOTONIC; times ascend. */
void pod_table_update(struct pod_table *t, struct pod_list *list, uint64_t now_ns);
/*
 * What is known of a workload: its pod, and its container where that is listed (*ret_container, else NULL).
 * NULL: nothing. Borrowed until the next update.
 */
const struct pod *pod_table_find(const struct pod_table *t, const struct cgroup_identity *id,
				 const struct pod_container **ret_container);
void pod_table_stats(const struct pod_table *t, struct pod_table_stats *ret);

#endif
