// SPDX-License-Identifier: Apache-2.0
#include "agent/base/memo.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/map.h"

#define FIRST_SLOTS 256u

void memo_fini(struct memo *m)
{
	free(m->slots);
	*m = (struct memo){0};
}

void memo_clear(struct memo *m)
{
	if (m->len)
		memset(m->slots, 0, m->n_slots * sizeof *m->slots);
	m->len = 0;
}

/* The key's slot, or the free slot where it belongs. There is always a free slot. */
static struct memo_slot *slot_of(const struct memo *m, uint64_t key)
{
	size_t i = hash_u64(key) & (m->n_slots - 1);

	while (m->slots[i].used && m->slots[i].key != key)
		i = (i + 1) & (m->n_slots - 1);
	return &m->slots[i];
}

bool memo_get(const struct memo *m, uint64_t key, int32_t *ret)
{
	const struct memo_slot *s = m->len ? slot_of(m, key) : NULL;

	if (!s || !s->used)
		return false;
	*ret = s->value;
	return true;
}

/* Room for one more at half load. */
static bool grow(struct memo *m)
{
	struct memo bigger = {.n_slots = m->n_slots ? m->n_slots * 2 : FIRST_SLOTS, .len = m->len};

	if (m->len < m->n_slots / 2)
		return true;
	bigger.slots = m->len < MEMO_MAX ? calloc(bigger.n_slots, sizeof *bigger.slots) : NULL;
	if (!bigger.slots)
		return false;
	for (size_t i = 0; i < m->n_slots; i++)
		if (m->slots[i].used)
			*slot_of(&bigger, m->slots[i].key) = m->slots[i];
	free(m->slots);
	*m = bigger;
	return true;
}

void memo_put(struct memo *m, uint64_t key, int32_t value)
{
	if (!grow(m))
		return;
	*slot_of(m, key) = (struct memo_slot){key, value, true};
	m->len++;
}
