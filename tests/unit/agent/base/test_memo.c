// SPDX-License-Identifier: Apache-2.0
#include "agent/base/memo.h"

#include <criterion/criterion.h>

Test(memo, returns_what_was_stored)
{
	struct memo m = {0};
	int32_t value = -1;

	cr_expect_not(memo_get(&m, 0, &value));
	for (uint64_t i = 0; i < 1000; i++)
		memo_put(&m, i * 0x100000000ull, (int32_t)i - 500);
	for (uint64_t i = 0; i < 1000; i++) {
		cr_assert(memo_get(&m, i * 0x100000000ull, &value));
		cr_expect_eq(value, (int32_t)i - 500);
	}
	cr_expect_not(memo_get(&m, 1, &value));
	memo_fini(&m);
	memo_fini(&m);
}

Test(memo, is_empty_after_clear_and_usable)
{
	struct memo m = {0};
	int32_t value;

	memo_clear(&m);
	memo_put(&m, 7, 1);
	memo_clear(&m);
	cr_expect_not(memo_get(&m, 7, &value));
	memo_put(&m, 7, 2);
	cr_assert(memo_get(&m, 7, &value));
	cr_expect_eq(value, 2);
	memo_fini(&m);
}

Test(memo, stops_learning_at_its_maximum)
{
	struct memo m = {0};
	int32_t value;

	for (uint64_t i = 0; i < 3 * MEMO_MAX; i++)
		memo_put(&m, i, (int32_t)i);
	cr_expect_leq(m.len, MEMO_MAX);
	cr_expect_leq(m.n_slots, 2 * MEMO_MAX);
	cr_expect(memo_get(&m, 1, &value) && value == 1);
	cr_expect_not(memo_get(&m, 3 * MEMO_MAX - 1, &value));
	memo_fini(&m);
}
