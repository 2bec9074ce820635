// SPDX-License-Identifier: Apache-2.0
/*
 * Where our own cgroup namespace begins in the unified hierarchy that PID 1 sees: what /proc/<pid>/cgroup
 * leaves out of every path it shows us. Rank 1.
 */
#ifndef PROFLET_CGROUP_NAMESPACE_H
#define PROFLET_CGROUP_NAMESPACE_H

/*
 * *ret: the path, "" when PID 1 is in our namespace; owned by the caller. 0; -ENOENT: the unified hierarchy
 * is not mounted here or there; -EACCES or -EPERM: without the right to look (CAP_SYS_PTRACE for PID 1's
 * root, CAP_DAC_READ_SEARCH to find a cgroup by its id); another -errno. *ret is written on success only.
 */
int cgroup_namespace_find(char **ret);

#endif
