// SPDX-License-Identifier: Apache-2.0
#include "agent/binary/binary_set.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/binary/registry.h"

static uint32_t n_words(const struct binary_set *s)
{
	return binary_registry_max(s->registry) / 64 + 1;
}

int binary_set_init(struct binary_set *s, struct binary_registry *r)
{
	*s = (struct binary_set){.registry = r};
	s->bits = calloc(n_words(s), sizeof *s->bits);
	return s->bits ? 0 : -ENOMEM;
}

void binary_set_fini(struct binary_set *s)
{
	if (s->bits)
		binary_set_clear(s);
	free(s->bits);
	*s = (struct binary_set){.bits = NULL};
}

void binary_set_add(struct binary_set *s, uint32_t index)
{
	uint64_t bit = 1ull << index % 64;

	if (index > binary_registry_max(s->registry) || (s->bits[index / 64] & bit))
		return;
	if (binary_registry_hold(s->registry, index))
		s->bits[index / 64] |= bit;
}

void binary_set_clear(struct binary_set *s)
{
	for (uint32_t i = 0; i < n_words(s); i++) {
		for (uint64_t left = s->bits[i]; left; left &= left - 1)
			binary_registry_release(s->registry, i * 64 + (uint32_t)__builtin_ctzll(left));
		s->bits[i] = 0;
	}
}
