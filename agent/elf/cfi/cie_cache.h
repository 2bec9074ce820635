// SPDX-License-Identifier: Apache-2.0
/*
 * CIEs by offset, parsed and interpreted once. Entries are made for CIEs that FDEs point to; a budget on
 * their size keeps a section whose every FDE points elsewhere into the same bytes from costing quadratic
 * time. Rank 1, private to elf/.
 */
#ifndef PROFLET_ELF_CIE_CACHE_H
#define PROFLET_ELF_CIE_CACHE_H

#include "agent/elf/cfi/interpreter.h"

struct cie_slot {
	uint64_t offset;
	struct cfi_cie cie;
	struct cfi_state initial;
};

struct cie_cache {
	struct cie_slot *slots; /* owned, in the order they were made */
	uint32_t *index;	/* owned: slot + 1 by hash of the offset, 0 is free */
	size_t n, n_index;
	size_t last;	 /* the slot found last */
	uint64_t budget; /* bytes of CIE programs that may still be run */
};

void cie_cache_init(struct cie_cache *cache, const struct cfi_section *s);
void cie_cache_fini(struct cie_cache *cache);
const struct cie_slot *cie_cache_find(struct cie_cache *cache, struct cfi_output *out,
				      const struct cfi_section *s, uint64_t offset, int *ret_fatal);

/* The CIE at `offset` (look at ->cie.error), borrowed until the next call. NULL: -ENOMEM in *ret_fatal. */
static inline const struct cie_slot *cie_cache_get(struct cie_cache *cache, struct cfi_output *out,
						   const struct cfi_section *s, uint64_t offset,
						   int *ret_fatal)
{
	*ret_fatal = 0;
	if (cache->n && cache->slots[cache->last].offset == offset)
		return &cache->slots[cache->last];
	return cie_cache_find(cache, out, s, offset, ret_fatal);
}

#endif
