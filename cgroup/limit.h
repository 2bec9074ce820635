// SPDX-License-Identifier: Apache-2.0
/* What our own control group allows us: its memory limit, and its share of busy CPUs. */
#ifndef PROFLET_CGROUP_LIMIT_H
#define PROFLET_CGROUP_LIMIT_H

#include <limits.h>
#include <stdint.h>

/*
 * *ret: the lowest limit in bytes of our control group and of its visible ancestors, v1 or v2; UINT64_MAX: no
 * limit. `root` is prepended to /proc and the mount points; "" except in tests. 0, or -errno when /proc
 * cannot be read.
 */
int cgroup_memory_limit(const char *root, uint64_t *ret);

#define CGROUP_CPU_SHARES_DEFAULT 1024u /* of a new group in v1 */
#define CGROUP_CPU_WEIGHT_DEFAULT 100u	/* in v2 */

/* The weight with which a control group competes for CPUs with the groups beside it. */
struct cgroup_cpu {
	unsigned version;      /* of control groups: 1 or 2 */
	uint64_t weight;       /* v1: cpu.shares, 2 to 262144; v2: cpu.weight, 1 to 10000 */
	char folder[PATH_MAX]; /* of the group's files */
};

/*
 * The weight of our control group. 0; -ENOENT: no hierarchy with the CPU controller is mounted here;
 * -ENODATA: the group has no weight, because it is the root, or the controller is not enabled for it; another
 * -errno. *ret is written on success only. `root` as above.
 */
int cgroup_cpu_weight(const char *root, struct cgroup_cpu *ret);

#endif
