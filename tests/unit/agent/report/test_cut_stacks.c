// SPDX-License-Identifier: Apache-2.0
/* Where stacks are cut, by module and reason. */
#include "agent/report/cut_stacks.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define TOP 4

Test(cut_stacks, by_module_and_reason)
{
	struct cut_stacks c = {0};
	struct cut_stack top[TOP];

	for (int i = 0; i < 3; i++)
		cut_stacks_add(&c, "libc.so.6", ENDING_NO_ROOT);
	cut_stacks_add(&c, "libc.so.6", ENDING_NO_ROW);
	cut_stacks_add(&c, "evil\n\033[1m", ENDING_NO_ROW);
	cut_stacks_add(&c, "evil\n\033[1m", ENDING_NO_ROW);
	cr_assert_eq(cut_stacks_top(&c, top, TOP), 3);
	cr_expect_str_eq(top[0].module, "libc.so.6");
	cr_expect_eq(top[0].ending, ENDING_NO_ROOT);
	cr_expect_eq(top[0].samples, 3);
	cr_expect_str_eq(top[1].module, "evil??[1m");
	cr_expect_eq(top[2].samples, 1);
}

/* Many modules with a sample each do not push out one with many. */
Test(cut_stacks, more_than_there_are_counters)
{
	struct cut_stacks c = {0};
	struct cut_stack top[TOP];

	for (unsigned i = 0; i < 10 * CUT_STACKS_MAX; i++) {
		char name[2 * CUT_STACKS_NAME_MAX];

		memset(name, 'x', sizeof name);
		snprintf(name, 16, "%u", i);
		cut_stacks_add(&c, name, ENDING_NO_ROOT);
		if (i % 4 == 0)
			cut_stacks_add(&c, "often", ENDING_NO_TABLE);
	}
	cr_assert_eq(cut_stacks_top(&c, top, TOP), TOP);
	cr_expect_str_eq(top[0].module, "often");
	cr_expect_geq(top[0].samples, 10 * CUT_STACKS_MAX / 4);
	cr_expect_leq(top[0].samples - top[0].too_many, 10 * CUT_STACKS_MAX / 4);
	cr_expect_eq(c.n, CUT_STACKS_MAX);
}
