// SPDX-License-Identifier: Apache-2.0
/* How much memory our own control group may use. Rank 1. */
#ifndef PROFLET_CGROUP_LIMIT_H
#define PROFLET_CGROUP_LIMIT_H

#include <stdint.h>

/*
 * The least limit, in bytes, of the group that we run in and of those above it that can be seen, v1 or v2;
 * UINT64_MAX when there is none. `root` comes before /proc and the mount points: "" but in tests. 0, or
 * -errno when /proc cannot be read.
 */
int cgroup_memory_limit(const char *root, uint64_t *ret);

#endif
