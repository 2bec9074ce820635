// SPDX-License-Identifier: Apache-2.0
/*
 * What is counted for each tenant, so that none can take another's share: struct proc_context says which
 * tenant a process belongs to. An owner embeds struct tenant_share in a record of its own, and finds the
 * record of a tenant in a map. Tenant 0 is not known. Rank 1; may include base.
 */
#ifndef PROFLET_PROC_TENANT_H
#define PROFLET_PROC_TENANT_H

#include <stdint.h>

#include "agent/base/map.h"

struct tenant_share {
	struct map_node node;
	uint64_t tenant;
	unsigned refs; /* the owner's: it frees the record when it wants */
};

/* The share of that tenant, or NULL. Borrowed. */
struct tenant_share *tenant_share_find(const struct map *shares, uint64_t tenant);
/* Puts a zeroed record into the map, for a tenant that has none. 0, -ENOMEM, or -ENOSPC at the maximum. */
int tenant_share_add(struct map *shares, struct tenant_share *s, uint64_t tenant);
/* Takes it out of the map; the caller frees it. */
void tenant_share_remove(struct map *shares, struct tenant_share *s);

#endif
