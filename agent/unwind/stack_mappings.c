// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/stack_mappings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/proc/table.h"
#include "agent/sample/decode.h"

struct finder {
	const struct proc_maps *maps;
	uint64_t first, last; /* address range of all mappings */
	uint32_t *indices;    /* owned; room for two for each register and word */
	size_t n;
};

static void add_address(struct finder *f, uint64_t address)
{
	const struct proc_mapping *m = proc_maps_find(f->maps, address);
	uint32_t index = m ? (uint32_t)(m - f->maps->entries) : 0;

	if (m && !(f->n && f->indices[f->n - 1] == index))
		f->indices[f->n++] = index;
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
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

int stack_mappings_find(const struct proc_maps *maps, const struct sample_view *v, uint32_t **ret,
			size_t *ret_n)
{
	const struct saved_stack *saved = v->saved;
	size_t words = saved->stack_bytes / 8, at = -saved->stack_address & 7, unique = 0;
	struct finder f = {.maps = maps};

	*ret = NULL;
	*ret_n = 0;
	if (!maps->n)
		return 0;
	f.first = maps->entries[0].start;
	f.last = maps->entries[maps->n - 1].end;
	f.indices = malloc((words + SAVED_STACK_REGISTERS + 1) * 2 * sizeof *f.indices);
	if (!f.indices)
		return -ENOMEM;
	add_word(&f, saved->ip);
	for (size_t i = 0; i < SAVED_STACK_REGISTERS; i++)
		add_word(&f, saved->regs[i]);
	for (; at + 8 <= saved->stack_bytes; at += 8) {
		uint64_t word;

		memcpy(&word, v->stack + at, sizeof word);
		add_word(&f, word);
	}
	qsort(f.indices, f.n, sizeof *f.indices, ascending);
	for (size_t i = 0; i < f.n; i++)
		if (!unique || f.indices[unique - 1] != f.indices[i])
			f.indices[unique++] = f.indices[i];
	*ret = f.indices;
	*ret_n = unique;
	return 0;
}
