// SPDX-License-Identifier: Apache-2.0
#include "agent/proc/tenant.h"

#include "agent/base/cleanup.h"

static bool share_is(const struct map_node *node, const void *key)
{
	return container_of(node, struct tenant_share, node)->tenant == *(const uint64_t *)key;
}

struct tenant_share *tenant_share_find(const struct map *shares, uint64_t tenant)
{
	struct map_node *n = map_find(shares, hash_u64(tenant), share_is, &tenant);

	return n ? container_of(n, struct tenant_share, node) : NULL;
}

int tenant_share_add(struct map *shares, struct tenant_share *s, uint64_t tenant)
{
	s->tenant = tenant;
	return map_insert(shares, &s->node, hash_u64(tenant));
}

void tenant_share_remove(struct map *shares, struct tenant_share *s)
{
	map_remove(shares, &s->node);
}
