// SPDX-License-Identifier: Apache-2.0
/* The last step: sorted, one name an address, 32-bit offsets. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/symbol/kallsyms_private.h"

DEFINE_CLEANUP(struct kallsyms *, kallsyms_free)

static int compare_raws(const void *pa, const void *pb)
{
	const struct kallsyms_raw *a = pa, *b = pb;

	if (a->addr != b->addr)
		return a->addr < b->addr ? -1 : 1;
	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	return a->name < b->name ? -1 : a->name > b->name;
}

static void sort_raws(struct kallsyms_builder *b)
{
	size_t n = 0;

	qsort(b->raws, b->n_raws, sizeof *b->raws, compare_raws);
	for (size_t i = 0; i < b->n_raws; i++)
		if (!n || b->raws[n - 1].addr != b->raws[i].addr)
			b->raws[n++] = b->raws[i];
	b->n_raws = n;
}

static size_t count_groups(const struct kallsyms_builder *b)
{
	uint64_t base = 0;
	size_t n = 0;

	for (size_t i = 0; i < b->n_raws; i++)
		if (!n || b->raws[i].addr - base > UINT32_MAX) {
			base = b->raws[i].addr;
			n++;
		}
	return n;
}

static void fill_symbols(struct kallsyms *t, const struct kallsyms_builder *b)
{
	struct kallsyms_group *g = NULL;

	for (size_t i = 0; i < b->n_raws; i++) {
		const struct kallsyms_raw *raw = &b->raws[i];

		if (!g || raw->addr - g->base > UINT32_MAX) {
			g = &t->groups[t->n_groups++];
			*g = (struct kallsyms_group){raw->addr, i, 0};
		}
		g->n++;
		t->offsets[i] = (uint32_t)(raw->addr - g->base);
		t->symbol_names[i] = raw->name;
		t->symbol_owners[i] = raw->owner;
	}
}

/* The kernel's init text lies behind _etext and is gone after boot. */
static void fill_ranges(struct kallsyms *t, uint64_t etext)
{
	for (size_t g = 0; g < t->n_groups; g++) {
		for (size_t i = t->groups[g].first; i < t->groups[g].first + t->groups[g].n; i++) {
			struct kallsyms_owner *o = &t->owners[t->symbol_owners[i]];
			uint64_t start = t->groups[g].base + t->offsets[i];

			if (!t->symbol_names[i] || (!t->symbol_owners[i] && etext && start >= etext))
				continue;
			if (!o->end)
				o->start = start;
			o->end = kallsyms_symbol_end(t, g, i);
		}
	}
}

int kallsyms_builder_finish(struct kallsyms_builder *b, struct kallsyms **ret)
{
	_cleanup_(kallsyms_free_p) struct kallsyms *t = NULL;

	if (!b->n_raws)
		return b->n_text && !b->n_nonzero ? -EPERM : -ENODATA;
	sort_raws(b);
	t = calloc(1, sizeof *t);
	if (!t)
		return -ENOMEM;
	t->groups = calloc(count_groups(b), sizeof *t->groups);
	t->offsets = malloc(b->n_raws * sizeof *t->offsets);
	t->symbol_names = malloc(b->n_raws * sizeof *t->symbol_names);
	t->symbol_owners = malloc(b->n_raws * sizeof *t->symbol_owners);
	t->owners = calloc(b->n_owners, sizeof *t->owners);
	if (!t->groups || !t->offsets || !t->symbol_names || !t->symbol_owners || !t->owners)
		return -ENOMEM;
	t->n_symbols = b->n_raws;
	t->n_owners = b->n_owners;
	t->n_skipped = b->n_skipped;
	memcpy(t->owners, b->owners, b->n_owners * sizeof *t->owners);
	fill_symbols(t, b);
	fill_ranges(t, b->etext);
	t->names_bytes = b->names.len;
	(void)array_resize(&b->names.data, b->names.len, 1); /* else it stays as large as it is */
	t->names = (char *)b->names.data;
	b->names = (struct buf){0};
	*ret = TAKE_PTR(t);
	return 0;
}
