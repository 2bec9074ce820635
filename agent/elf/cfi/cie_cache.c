// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/cfi/cie_cache.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/base/array.h"
#include "agent/base/map.h"

#define FIRST_INDEX 64
#define BUDGET_MIN 4096 /* bytes; small sections may share CIEs in unusual ways */

void cie_cache_init(struct cie_cache *cache, const struct cfi_section *s)
{
	*cache = (struct cie_cache){.budget = s->len + BUDGET_MIN};
}

void cie_cache_fini(struct cie_cache *cache)
{
	free(cache->slots);
	free(cache->index);
	*cache = (struct cie_cache){0};
}

/* The place of `offset` in the index, or the free one for it. */
static size_t find(const struct cie_cache *cache, uint64_t offset)
{
	size_t at = hash_u64(offset) & (cache->n_index - 1);

	while (cache->index[at] && cache->slots[cache->index[at] - 1].offset != offset)
		at = (at + 1) & (cache->n_index - 1);
	return at;
}

static int grow(struct cie_cache *cache)
{
	size_t n_index = cache->n_index ? cache->n_index * 2 : FIRST_INDEX;
	uint32_t *index = calloc(n_index, sizeof(*index));

	if (!index || array_resize(&cache->slots, n_index / 2, sizeof(*cache->slots)) < 0) {
		free(index);
		return -ENOMEM;
	}
	free(cache->index);
	cache->index = index;
	cache->n_index = n_index;
	for (size_t i = 0; i < cache->n; i++)
		cache->index[find(cache, cache->slots[i].offset)] = (uint32_t)i + 1;
	return 0;
}

static void fill(struct cie_cache *cache, struct cie_slot *slot, struct cfi_output *out,
		 const struct cfi_section *s, int *ret_fatal)
{
	struct cfi_cie *cie = &slot->cie;

	entry_cie(s, slot->offset, cie);
	if (cie->error)
		return;
	uint64_t cost = cursor_left(&cie->program);
	if (cost > cache->budget) {
		cie->error = "CIEs overlap";
		return;
	}
	cache->budget -= cost;
	cfi_run_cie(out, s, cie, &slot->initial, ret_fatal);
}

const struct cie_slot *cie_cache_find(struct cie_cache *cache, struct cfi_output *out,
				      const struct cfi_section *s, uint64_t offset, int *ret_fatal)
{
	if (cache->n == cache->n_index / 2) {
		*ret_fatal = grow(cache);
		if (*ret_fatal < 0)
			return NULL;
	}
	size_t at = find(cache, offset);
	if (cache->index[at]) {
		cache->last = cache->index[at] - 1;
		return &cache->slots[cache->last];
	}
	struct cie_slot *slot = &cache->slots[cache->n];
	*slot = (struct cie_slot){.offset = offset};
	fill(cache, slot, out, s, ret_fatal);
	if (*ret_fatal < 0)
		return NULL;
	cache->index[at] = (uint32_t)++cache->n;
	cache->last = cache->n - 1;
	return slot;
}
