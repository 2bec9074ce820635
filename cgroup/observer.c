// SPDX-License-Identifier: Apache-2.0
#include "cgroup/observer.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/fs.h"
#include "cgroup/namespace.h"
#include "cgroup/tree.h"

#define OWN_MAX (64u << 10)

static char *read_own(void)
{
	_cleanup_buf_ struct buf text = {0};

	if (fs_read_file("/proc/self/cgroup", OWN_MAX, &text) < 0)
		return NULL;
	return strndup((const char *)text.data, text.len);
}

void cgroup_place_find(struct cgroup_place *ret, struct cgroup_place_errors *ret_errors)
{
	*ret = (struct cgroup_place){.own = read_own()};
	ret_errors->base = cgroup_namespace_find(&ret->base);
	ret_errors->tree = cgroup_tree_new(&ret->tree, ret_errors->base == 0 && !*ret->base);
	ret->from.base = ret->base;
	ret->from.own = ret->own;
	if (ret->tree) {
		ret->from.is_roots = cgroup_tree_is_roots;
		ret->from.data = ret->tree;
	}
}

void cgroup_place_fini(struct cgroup_place *p)
{
	cgroup_tree_free(p->tree);
	free(p->own);
	free(p->base);
	*p = (struct cgroup_place){0};
}
