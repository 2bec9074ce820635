// SPDX-License-Identifier: Apache-2.0
/*
 * The hierarchies of control groups from their roots, to see who owns a group. A container's runtime
 * works as root; whoever may make groups below one of his own (a delegated group: cgroups(7)) can give them
 * any name.
 */
#ifndef PROFLET_CGROUP_TREE_H
#define PROFLET_CGROUP_TREE_H

#include <stdbool.h>

#include "cgroup/path.h"

#define CGROUP_TREES_MAX 16 /* hierarchies; more are not looked at */

struct cgroup_tree;

/*
 * Owned by the caller: cgroup_tree_free. They are where PID 1 has mounted them, or we ourselves; `shared`: we
 * are in its cgroup namespace, else the roots of our own mounts are other groups. A hierarchy that cannot be
 * opened is left out: -EACCES or -EPERM (CAP_SYS_PTRACE is needed for PID 1's root) if that is so for all;
 * -ENOENT: there is none; -ENOMEM.
 */
int cgroup_tree_new(struct cgroup_tree **ret, bool shared);
void cgroup_tree_free(struct cgroup_tree *t); /* NULL is fine */
/*
 * For struct cgroup_observer; `data` is a struct cgroup_tree. False: one of the folders of the path, but for
 * those that are also ours, belongs to somebody else than root as our user namespace shows it, or others may
 * write to it, or it does not exist. True where the hierarchy could not be opened: nothing is known.
 */
bool cgroup_tree_is_roots(void *data, const struct cgroup_folder *folder);

#endif
