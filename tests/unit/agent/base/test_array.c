// SPDX-License-Identifier: Apache-2.0
#include "agent/base/array.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

Test(array, grows_and_keeps_its_items)
{
	uint32_t *items = NULL;
	size_t n = 0, cap = 0, grown = 0;

	for (uint32_t i = 0; i < 1000; i++) {
		size_t before = cap;

		cr_assert_eq(array_reserve(&items, &cap, n + 1, sizeof *items), 0);
		grown += cap != before;
		items[n++] = i;
	}
	for (uint32_t i = 0; i < 1000; i++)
		cr_assert_eq(items[i], i);
	cr_assert_leq(grown, 8, "it doubles");
	cr_assert_eq(array_reserve(&items, &cap, 5000, sizeof *items), 0);
	cr_assert_geq(cap, 5000);
	free(items);
}

Test(array, without_memory_nothing_changes)
{
	uint64_t *items = NULL;
	size_t cap = 0;
	uint64_t *before;

	cr_assert_eq(array_reserve(&items, &cap, 3, sizeof *items), 0);
	before = items;
	cr_assert_eq(array_reserve(&items, &cap, SIZE_MAX / 4, sizeof *items), -ENOMEM);
	cr_assert_eq(items, before);
	cr_assert_eq(cap, 8);
	free(items);
}

Test(array, resized_to_what_is_needed)
{
	uint64_t *items = NULL;

	cr_assert_eq(array_resize(&items, 1000, sizeof *items), 0);
	items[2] = 7;
	cr_assert_eq(array_resize(&items, 3, sizeof *items), 0);
	cr_expect_eq(items[2], 7);
	cr_expect_eq(array_resize(&items, SIZE_MAX / 4, sizeof *items), -ENOMEM);
	cr_expect_eq(items[2], 7);
	free(items);
}

Test(array, first_from)
{
	static const uint64_t values[] = {2, 4, 4, 8};
	static const size_t want[] = {0, 0, 0, 1, 1, 3, 3, 3, 3, 4};

	for (uint64_t value = 0; value < 10; value++)
		cr_expect_eq(array_first_from(values, 4, value), want[value], "%lu", (unsigned long)value);
	cr_expect_eq(array_first_from(NULL, 0, 1), 0);
}
