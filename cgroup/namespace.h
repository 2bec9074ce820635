// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the root of our own cgroup namespace in the unified hierarchy of PID 1: the part that
 * /proc/<pid>/cgroup omits from every path it shows us.
 */
#ifndef PROFLET_CGROUP_NAMESPACE_H
#define PROFLET_CGROUP_NAMESPACE_H

/*
 * *ret: the path, "" when PID 1 is in our namespace; owned by the caller. 0; -ENOENT: the unified hierarchy
 * is not mounted here or in PID 1; -EACCES or -EPERM: a capability is missing (CAP_SYS_PTRACE for PID 1's
 * root, CAP_DAC_READ_SEARCH to find a cgroup by its id); another -errno. *ret is written on success only.
 */
int cgroup_namespace_find(char **ret);

#endif
