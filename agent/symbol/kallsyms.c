// SPDX-License-Identifier: Apache-2.0
#include "agent/symbol/kallsyms.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "agent/symbol/kallsyms_private.h"

void kallsyms_free(struct kallsyms *t)
{
	if (!t)
		return;
	free(t->groups);
	free(t->offsets);
	free(t->symbol_names);
	free(t->symbol_owners);
	free(t->names);
	free(t->owners);
	free(t);
}

uint64_t kallsyms_symbol_end(const struct kallsyms *t, size_t g, size_t i)
{
	const struct kallsyms_group *group = &t->groups[g];
	uint64_t start = group->base + t->offsets[i], max = KALLSYMS_TAIL_MAX, next = UINT64_MAX;

	if (i + 1 < group->first + group->n)
		next = group->base + t->offsets[i + 1];
	else if (g + 1 < t->n_groups)
		next = t->groups[g + 1].base;
	if (i + 1 < t->n_symbols && t->symbol_owners[i] == t->symbol_owners[i + 1])
		max = KALLSYMS_FUNCTION_MAX;
	return next - start < max ? next : start + max;
}

/* The last group that begins at or below addr. */
static bool find_group(const struct kallsyms *t, uint64_t addr, size_t *ret)
{
	size_t low = 0, high = t->n_groups;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (t->groups[middle].base <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	*ret = low - 1;
	return low > 0;
}

int kallsyms_lookup(const struct kallsyms *t, uint64_t addr, struct kallsyms_symbol *ret)
{
	const struct kallsyms_group *group;
	size_t g, low, high;
	uint64_t end;

	if (!find_group(t, addr, &g))
		return -ENOENT;
	group = &t->groups[g];
	/* the group's first symbol stands at its base, so there is one at or below addr */
	for (low = group->first + 1, high = group->first + group->n; low < high;) {
		size_t middle = low + (high - low) / 2;

		if (t->offsets[middle] <= addr - group->base)
			low = middle + 1;
		else
			high = middle;
	}
	low--;
	end = kallsyms_symbol_end(t, g, low);
	if (addr >= end || !t->symbol_names[low])
		return -ENOENT;
	ret->name = t->names + t->symbol_names[low];
	ret->module_index = t->symbol_owners[low];
	ret->module = ret->module_index ? t->names + t->owners[ret->module_index].name : NULL;
	ret->start = group->base + t->offsets[low];
	ret->end = end;
	return 0;
}

int kallsyms_module(const struct kallsyms *t, size_t index, struct kallsyms_module *ret)
{
	const struct kallsyms_owner *owner;

	if (index >= t->n_owners)
		return -ENOENT;
	owner = &t->owners[index];
	*ret = (struct kallsyms_module){index ? t->names + owner->name : NULL, owner->start, owner->end};
	return 0;
}

void kallsyms_table_stats(const struct kallsyms *t, struct kallsyms_stats *ret)
{
	*ret = (struct kallsyms_stats){
		.n_symbols = t->n_symbols,
		.n_modules = t->n_owners - 1,
		.n_skipped = t->n_skipped,
		.bytes = sizeof *t + t->n_groups * sizeof *t->groups + t->n_owners * sizeof *t->owners +
			 t->n_symbols *
				 (sizeof *t->offsets + sizeof *t->symbol_names + sizeof *t->symbol_owners) +
			 t->names_bytes,
	};
}
