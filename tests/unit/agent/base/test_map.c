// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/map.h"

struct thing {
	struct map_node node;
	uint32_t id;
	unsigned seen;
};

static bool thing_is(const struct map_node *node, const void *key)
{
	return container_of(node, struct thing, node)->id == *(const uint32_t *)key;
}

static struct thing *find(const struct map *m, uint32_t id, uint64_t hash)
{
	struct map_node *n = map_find(m, hash, thing_is, &id);

	return n ? container_of(n, struct thing, node) : NULL;
}

Test(map, finds_what_was_put_in)
{
	enum { N = 5000 };
	_cleanup_free_ struct thing *things = calloc(N, sizeof *things);
	struct map m;

	map_init(&m, N);
	cr_assert_null(find(&m, 1, hash_u64(1)));
	for (uint32_t i = 0; i < N; i++) {
		things[i].id = i;
		cr_assert_eq(map_insert(&m, &things[i].node, hash_u64(i)), 0);
	}
	cr_assert_eq(m.len, N);
	for (uint32_t i = 0; i < N; i++)
		cr_assert_eq(find(&m, i, hash_u64(i)), &things[i]);
	cr_assert_null(find(&m, N, hash_u64(N)));
	for (uint32_t i = 0; i < N; i += 2)
		map_remove(&m, &things[i].node);
	cr_assert_eq(m.len, N / 2);
	for (uint32_t i = 0; i < N; i++)
		cr_assert_eq(find(&m, i, hash_u64(i)), i & 1 ? &things[i] : NULL);
	map_fini(&m);
	map_fini(&m);
	cr_assert_null(find(&m, 1, hash_u64(1)));
}

Test(map, entries_of_one_hash_are_distinguished)
{
	struct thing things[8] = {0};
	struct map m;

	map_init(&m, 8);
	for (uint32_t i = 0; i < 8; i++) {
		things[i].id = i;
		cr_assert_eq(map_insert(&m, &things[i].node, 42), 0);
	}
	map_remove(&m, &things[3].node);
	map_remove(&m, &things[0].node);
	map_remove(&m, &things[7].node);
	for (uint32_t i = 0; i < 8; i++)
		cr_assert_eq(find(&m, i, 42), i == 3 || i == 0 || i == 7 ? NULL : &things[i]);
	cr_assert_null(find(&m, 1, 43));
	map_fini(&m);
}

Test(map, maximum_is_counted)
{
	struct thing things[4] = {0};
	struct map m;

	map_init(&m, 2);
	cr_assert_eq(map_insert(&m, &things[0].node, 1), 0);
	cr_assert_eq(map_insert(&m, &things[1].node, 2), 0);
	cr_assert_eq(map_insert(&m, &things[2].node, 3), -ENOSPC);
	cr_assert_eq(map_insert(&m, &things[3].node, 4), -ENOSPC);
	cr_assert_eq(m.n_full, 2);
	cr_assert_eq(m.len, 2);
	map_remove(&m, &things[0].node);
	cr_assert_eq(map_insert(&m, &things[2].node, 3), 0);
	map_fini(&m);
}

Test(map, each_visits_every_entry_once_and_may_free_it)
{
	enum { N = 100 };
	struct thing *things[N];
	struct map_node *n;
	struct map m;
	unsigned visits = 0;

	map_init(&m, N);
	map_for_each (&m, n, it)
		cr_assert_fail("an entry in an empty map");
	for (uint32_t i = 0; i < N; i++) {
		things[i] = calloc(1, sizeof **things);
		things[i]->id = i;
		cr_assert_eq(map_insert(&m, &things[i]->node, i % 7), 0);
	}
	map_for_each (&m, n, it) {
		visits++;
		if (visits == 10)
			break;
	}
	cr_assert_eq(visits, 10);
	map_for_each (&m, n, it)
		cr_assert_eq(container_of(n, struct thing, node)->seen++, 0);
	map_for_each (&m, n, it) {
		struct thing *t = container_of(n, struct thing, node);

		cr_assert_eq(t->seen, 1);
		map_remove(&m, n);
		free(t);
		visits++;
	}
	cr_assert_eq(visits, 10 + N);
	cr_assert_eq(m.len, 0);
	map_fini(&m);
}

/* Neighbouring keys must spread over the low bits, which choose the bucket. */
Test(map, hashes_spread)
{
	unsigned by_number[64] = {0}, by_bytes[64] = {0};

	for (uint64_t i = 0; i < 6400; i++) {
		uint64_t page = i << 12;

		by_number[hash_u64(page) & 63]++;
		by_bytes[hash_bytes(&page, sizeof page) & 63]++;
	}
	for (unsigned i = 0; i < 64; i++) {
		cr_expect(by_number[i] > 50 && by_number[i] < 150, "%u", by_number[i]);
		cr_expect(by_bytes[i] > 50 && by_bytes[i] < 150, "%u", by_bytes[i]);
	}
}

Test(map, hash_of_bytes_depends_on_every_byte_and_the_length)
{
	for (size_t len = 1; len <= 24; len++) {
		_cleanup_free_ uint8_t *data = calloc(1, len); /* the exact size, for the sanitizer */
		uint64_t zero = hash_bytes(data, len);

		cr_expect_neq(zero, hash_bytes(data, len - 1), "%zu", len);
		for (size_t i = 0; i < len; i++) {
			data[i] = 1;
			cr_expect_neq(hash_bytes(data, len), zero, "byte %zu of %zu", i, len);
			data[i] = 0;
		}
		cr_expect_eq(hash_bytes(data, len), zero);
	}
}
