// SPDX-License-Identifier: Apache-2.0
#include "agent/base/pool.h"

#include <criterion/criterion.h>
#include <stdalign.h>
#include <stdint.h>
#include <string.h>

Test(pool, pieces_are_apart_and_aligned)
{
	struct pool p = {0};
	uint8_t *pieces[500];

	for (size_t i = 0; i < 500; i++) {
		pieces[i] = pool_take(&p, i + 1);
		cr_assert_not_null(pieces[i]);
		cr_expect_eq((uintptr_t)pieces[i] % alignof(max_align_t), 0);
		memset(pieces[i], (int)i, i + 1);
	}
	for (size_t i = 0; i < 500; i++)
		for (size_t k = 0; k <= i; k++)
			cr_assert_eq(pieces[i][k], (uint8_t)i);
	pool_fini(&p);
	pool_fini(&p);
}

Test(pool, takes_pieces_larger_than_a_chunk_and_none_that_cannot_be)
{
	struct pool p = {0};
	uint8_t *big = pool_take(&p, 3 * POOL_CHUNK_BYTES), *small = pool_take(&p, 1);

	cr_assert(big && small);
	memset(big, 1, 3 * POOL_CHUNK_BYTES);
	*small = 2;
	cr_expect_eq(big[3 * POOL_CHUNK_BYTES - 1], 1);
	cr_expect_null(pool_take(&p, SIZE_MAX));
	cr_expect_not_null(pool_take(&p, 0));
	pool_fini(&p);
}
