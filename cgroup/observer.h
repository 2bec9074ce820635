// SPDX-License-Identifier: Apache-2.0
/* What this process has to know of its own place to read the paths of others (path.h). */
#ifndef PROFLET_CGROUP_OBSERVER_H
#define PROFLET_CGROUP_OBSERVER_H

#include "cgroup/path.h"

struct cgroup_tree;

struct cgroup_place {
	struct cgroup_observer from; /* borrows the rest */
	char *base, *own;
	struct cgroup_tree *tree;
};

struct cgroup_place_errors {
	int base; /* of cgroup_namespace_find: groups beside ours have incomplete paths */
	int tree; /* of cgroup_tree_new: names of groups are believed, whoever made them */
};

/* What cannot be found is left out; *ret_errors says why (0 or -errno). */
void cgroup_place_find(struct cgroup_place *ret, struct cgroup_place_errors *ret_errors);
void cgroup_place_fini(struct cgroup_place *p); /* zeroed is fine */

#endif
