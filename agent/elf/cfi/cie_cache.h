// SPDX-License-Identifier: Apache-2.0
/*
 * Caches CIEs by their offset, so that each is parsed and its instructions run once. Only CIEs to which an
 * FDE points are cached. A budget limits the bytes of instructions that are run in total: without it, a
 * section in which each FDE points to another offset in the same bytes would cost quadratic time. Rank 1,
 * private to elf/.
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
	struct cie_slot *slots; /* owned, in the order of their first use */
	uint32_t *index;	/* owned; hash table of offsets: slot + 1, or 0 if free */
	size_t n, n_index;
	size_t last;	 /* the most recently used slot */
	uint64_t budget; /* bytes of CIE instructions that may still be run */
};

void cie_cache_init(struct cie_cache *cache, const struct cfi_section *s);
void cie_cache_fini(struct cie_cache *cache);
const struct cie_slot *cie_cache_find(struct cie_cache *cache, struct cfi_output *out,
				      const struct cfi_section *s, uint64_t offset, int *ret_fatal);

/*
 * Returns the CIE at `offset`, borrowed until the next call; its cie.error says whether it is usable. NULL:
 * -ENOMEM, in *ret_fatal.
 */
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
