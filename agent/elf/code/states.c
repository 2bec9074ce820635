// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/code/states.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"

#define TABLE_MIN 256

int code_states_init(struct code_states *s)
{
	if (array_reserve(&s->v, &s->cap, LOST_STATE + 1, sizeof *s->v) < 0)
		return -ENOMEM;
	s->v[NO_STATE] = s->v[LOST_STATE] = (struct flow_state){0};
	s->n = LOST_STATE + 1;
	return 0;
}

void code_states_fini(struct code_states *s)
{
	free(s->v);
	free(s->table);
	*s = (struct code_states){0};
}

/* Two independent chains of multiplications; the last bytes count twice. */
static uint32_t state_hash(const struct flow_state *state)
{
	const char *bytes = (const char *)state;
	uint64_t a = 0, b = 0, v[2];

	for (size_t i = 0; i < sizeof *state; i += sizeof v) {
		const size_t at = i + sizeof v <= sizeof *state ? i : sizeof *state - sizeof v;

		memcpy(v, bytes + at, sizeof v);
		a = (a ^ v[0]) * 0x9e3779b97f4a7c15u;
		b = (b ^ v[1]) * 0xc2b2ae3d27d4eb4fu;
	}
	a ^= b ^ b >> 29;
	return (uint32_t)(a ^ a >> 32);
}

static bool same_state(const struct flow_state *a, const struct flow_state *b)
{
	return memcmp(a, b, sizeof *a) == 0;
}

static bool table_grow(struct code_states *s)
{
	const size_t n = s->n_table ? 2 * s->n_table : TABLE_MIN;
	uint32_t *table = calloc(n, sizeof *table);

	if (!table)
		return false;
	free(s->table);
	s->table = table;
	s->n_table = n;
	for (size_t i = LOST_STATE + 1; i < s->n; i++) {
		size_t at = state_hash(&s->v[i]) & (n - 1);

		while (table[at])
			at = (at + 1) & (n - 1);
		table[at] = (uint32_t)i;
	}
	return true;
}

uint32_t code_states_add(struct code_states *s, const struct flow_state *state)
{
	size_t at;

	if (s->n * 2 >= s->n_table && !table_grow(s))
		return NO_STATE;
	at = state_hash(state) & (s->n_table - 1);
	for (; s->table[at]; at = (at + 1) & (s->n_table - 1))
		if (same_state(&s->v[s->table[at]], state))
			return s->table[at];
	if (array_reserve(&s->v, &s->cap, s->n + 1, sizeof *s->v) < 0)
		return NO_STATE;
	s->v[s->n] = *state;
	return s->table[at] = (uint32_t)s->n++;
}

bool code_states_same_rule(const struct code_states *s, uint32_t a, uint32_t b)
{
	struct elf_rule x, y;

	if (a == b)
		return true;
	x = flow_rule(&s->v[a]);
	y = flow_rule(&s->v[b]);
	return memcmp(&x, &y, sizeof x) == 0;
}
