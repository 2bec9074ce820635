// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/names/extents.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/elf/cfi/cie_cache.h"
#include "agent/elf/cfi/frame_section.h"
#include "agent/elf/names/elf_symbol.h"

#define VISITS_PER_TARGET 64u /* bound for overlapping FDEs, which could cost FDEs * targets */

struct target {
	uint64_t addr, start, end; /* range of the FDE that covers it; end 0: none */
	uint64_t low, high;	   /* end of the FDEs below it, start of those above it */
	size_t index;		   /* in the caller's arrays */
};

struct targets {
	struct target *v; /* sorted by address */
	size_t n;
	uint64_t visits; /* visits that may still be made */
};

static int by_address(const void *a, const void *b)
{
	const struct target *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

static size_t first_from(const struct targets *t, uint64_t addr)
{
	return array_first(t->n, i, t->v[i].addr >= addr);
}

static void add_fde(struct targets *t, const struct cfi_fde *fde)
{
	size_t i = first_from(t, fde->start);

	if (i && fde->start < t->v[i - 1].high)
		t->v[i - 1].high = fde->start;
	for (; i < t->n && t->v[i].addr < fde->end && t->visits; i++, t->visits--)
		if (!t->v[i].end || fde->start > t->v[i].start) {
			t->v[i].start = fde->start;
			t->v[i].end = fde->end;
		}
	if (i < t->n && t->v[i].addr >= fde->end && fde->end > t->v[i].low)
		t->v[i].low = fde->end;
}

/* Copies the bounds of a target to its neighbours as far as they apply to them. */
static void spread_bounds(struct targets *t)
{
	for (size_t i = 1; i < t->n; i++) {
		struct target *below = &t->v[i - 1], *above = &t->v[t->n - 1 - i];

		if (below->low > t->v[i].low)
			t->v[i].low = below->low;
		if (above[1].high < above->high)
			above->high = above[1].high;
	}
}

/*
 * If two addresses are in no function, but functions lie between them, their results must not have the same
 * range.
 */
static void describe(const struct target *t, struct elf_symbol *ret)
{
	uint64_t start = t->end ? t->start : t->low, end = t->end ? t->end : t->high;

	ret->unnamed = t->end && start >= ret->start;
	if (start > ret->start || ret->unnamed)
		ret->start = start;
	if (end < ret->end)
		ret->end = end;
}

static int walk(struct targets *t, const struct cfi_section *s, struct cie_cache *cache,
		struct cfi_output *out)
{
	struct cfi_entry entry;
	uint64_t offset = 0;

	while (entry_next(s, &offset, &entry) > 0) {
		const struct cie_slot *cie;
		struct cfi_fde fde;
		int fatal;

		if (entry.is_cie || entry.body.bad)
			continue;
		cie = cie_cache_get(cache, out, s, entry.cie, &fatal);
		if (!cie)
			return fatal;
		if (!cie->cie.error && !entry_fde(s, &cie->cie, &entry, &fde))
			add_fde(t, &fde);
	}
	return 0;
}

static int cover(struct targets *t, struct elf_image *img)
{
	struct cie_cache cache;
	struct cfi_output out = {0};
	struct cfi_section s;
	int r = frame_section_eh(img, &s);

	if (r < 0)
		return r == -ENOMEM ? r : 0;
	r = cfi_output_init(&out);
	if (r < 0)
		return r;
	cie_cache_init(&cache, &s);
	r = walk(t, &s, &cache, &out);
	cie_cache_fini(&cache);
	cfi_output_fini(&out);
	return r;
}

int extents_resolve(struct elf_image *img, const uint64_t *addrs, size_t n, struct elf_symbol *ret)
{
	_cleanup_free_ struct target *v = calloc(n + 1, sizeof *v);
	struct targets t = {.v = v};
	int r;

	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (!ret[i].name)
			v[t.n++] = (struct target){.addr = addrs[i], .high = UINT64_MAX, .index = i};
	if (!t.n)
		return 0;
	t.visits = VISITS_PER_TARGET * (uint64_t)t.n;
	qsort(v, t.n, sizeof *v, by_address);
	r = cover(&t, img);
	spread_bounds(&t);
	for (size_t i = 0; i < t.n && r == 0; i++)
		describe(&v[i], &ret[v[i].index]);
	return r;
}
