// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/reach.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/proc/table.h"
#include "agent/sample/decode.h"

struct reach {
	const struct proc_maps *maps;
	uint64_t first, last; /* of what the mappings cover */
	uint32_t *indices;    /* owned; room for two of each word */
	size_t n;
};

static void note(struct reach *r, uint64_t address)
{
	const struct proc_mapping *m = proc_maps_find(r->maps, address);
	uint32_t index = m ? (uint32_t)(m - r->maps->entries) : 0;

	if (m && !(r->n && r->indices[r->n - 1] == index))
		r->indices[r->n++] = index;
}

/* An address, or one to return to: behind a call that may be the last instruction of its mapping. */
static void note_word(struct reach *r, uint64_t word)
{
	if (word < r->first || word > r->last)
		return;
	note(r, word);
	note(r, word - 1);
}

static int ascending(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

int reach_mappings(const struct proc_maps *maps, const struct sample_view *v, uint32_t **ret, size_t *ret_n)
{
	const struct saved_stack *saved = v->saved;
	size_t words = saved->stack_bytes / 8, at = -saved->stack_address & 7, unique = 0;
	struct reach r = {.maps = maps};

	*ret = NULL;
	*ret_n = 0;
	if (!maps->n)
		return 0;
	r.first = maps->entries[0].start;
	r.last = maps->entries[maps->n - 1].end;
	r.indices = malloc((words + SAVED_STACK_REGISTERS + 1) * 2 * sizeof *r.indices);
	if (!r.indices)
		return -ENOMEM;
	note_word(&r, saved->ip);
	for (size_t i = 0; i < SAVED_STACK_REGISTERS; i++)
		note_word(&r, saved->regs[i]);
	for (; at + 8 <= saved->stack_bytes; at += 8) {
		uint64_t word;

		memcpy(&word, v->stack + at, sizeof word);
		note_word(&r, word);
	}
	qsort(r.indices, r.n, sizeof *r.indices, ascending);
	for (size_t i = 0; i < r.n; i++)
		if (!unique || r.indices[unique - 1] != r.indices[i])
			r.indices[unique++] = r.indices[i];
	*ret = r.indices;
	*ret_n = unique;
	return 0;
}
