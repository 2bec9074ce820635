// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/stack_mappings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/proc/table.h"
#include "agent/sample/decode.h"

struct finder {
	const struct proc_maps *maps;
	uint64_t first, last;		   /* address range of all mappings */
	const struct proc_mapping **found; /* owned; room for two for each register and word */
	size_t n;
};

static void add_address(struct finder *f, uint64_t address)
{
	const struct proc_mapping *m = proc_maps_find(f->maps, address);

	if (m && !(f->n && f->found[f->n - 1] == m))
		f->found[f->n++] = m;
}

/*
 * The word may be a return address, and the call before it the last instruction of its mapping: so the byte
 * before it counts, too.
 */
static void add_word(struct finder *f, uint64_t word)
{
	if (word < f->first || word > f->last)
		return;
	add_address(f, word);
	add_address(f, word - 1);
}

static int ascending(const void *a, const void *b)
{
	const struct proc_mapping *const *x = a, *const *y = b;

	return ((*x)->start > (*y)->start) - ((*x)->start < (*y)->start);
}

int stack_mappings_find(const struct proc_maps *maps, const struct sample_view *v,
			const struct proc_mapping ***ret, size_t *ret_n)
{
	const struct saved_stack *saved = v->saved;
	size_t words = saved->stack_bytes / 8, at = -saved->stack_address & 7, unique = 0;
	struct finder f = {.maps = maps};

	*ret = NULL;
	*ret_n = 0;
	if (!maps->n)
		return 0;
	f.first = proc_maps_at(maps, 0)->start;
	f.last = proc_maps_at(maps, maps->n - 1)->end;
	f.found = malloc((words + SAVED_STACK_REGISTERS + 1) * 2 * sizeof(const struct proc_mapping *));
	if (!f.found)
		return -ENOMEM;
	add_word(&f, saved->ip);
	for (size_t i = 0; i < SAVED_STACK_REGISTERS; i++)
		add_word(&f, saved->regs[i]);
	for (; at + 8 <= saved->stack_bytes; at += 8) {
		uint64_t word;

		memcpy(&word, v->stack + at, sizeof word);
		add_word(&f, word);
	}
	qsort(f.found, f.n, sizeof(const struct proc_mapping *), ascending);
	for (size_t i = 0; i < f.n; i++)
		if (!unique || f.found[unique - 1] != f.found[i])
			f.found[unique++] = f.found[i];
	*ret = f.found;
	*ret_n = unique;
	return 0;
}
