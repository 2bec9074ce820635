// SPDX-License-Identifier: Apache-2.0
/* The memory limit of our own control group. */
#ifndef PROFLET_CGROUP_LIMIT_H
#define PROFLET_CGROUP_LIMIT_H

#include <stdint.h>

/*
 * *ret: the lowest limit in bytes of our control group and of its visible ancestors, v1 or v2; UINT64_MAX: no
 * limit. `root` is prepended to /proc and the mount points; "" except in tests. 0, or -errno when /proc
 * cannot be read.
 */
int cgroup_memory_limit(const char *root, uint64_t *ret);

#endif
