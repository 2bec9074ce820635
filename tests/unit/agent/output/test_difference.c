// SPDX-License-Identifier: Apache-2.0
#include "recording.h"

#include "agent/output/difference.h"

static const struct difference_row rows[] = {
	{.name = "slow", .origin = "app", .a = 0.1, .b = 0.15, .low = 0.04, .high = 0.06, .certain = true},
	{.name = "fast", .origin = "", .a = 0.2, .b = 0.1, .low = -0.12, .high = -0.08, .certain = true},
	{.name = "gone", .origin = "lib.so", .a = 0.05, .b = 0, .low = -0.06, .high = -0.04, .certain = true},
	{.name = "same", .origin = "app", .a = 0.5, .b = 0.51, .low = -0.01, .high = 0.03},
};

static void expect_written(const struct difference *d, const char *expected)
{
	size_t len;
	_cleanup_free_ char *text = WRITTEN(&len, output_difference_write(d, f));

	cr_expect_str_eq(text, expected, "got:\n%s", text);
}

Test(output_difference, what_grew_what_shrank_and_noise)
{
	expect_written(&(struct difference){.rows = rows, .n = 4, .n_shown = 1},
		       "\nshares of all samples, of a function's own code\n"
		       "     A%      B%   CHANGE       95 % INTERVAL  FUNCTION\n"
		       "\ntakes more in B\n"
		       "  10.00   15.00    +5.00     +4.00 …   +6.00  slow  app\n"
		       "\ntakes less in B\n"
		       "  20.00   10.00   -10.00    -12.00 …   -8.00  fast\n"
		       "                                              and 1 more\n"
		       "\n1 other function differs by no more than noise, at most by +1.00 % (same)\n");
}

Test(output_difference, noise_alone_is_no_difference)
{
	expect_written(
		&(struct difference){.rows = rows + 3, .n = 1, .n_shown = 20, .total = true},
		"\nshares of all samples, with what a function calls\n"
		"     A%      B%   CHANGE       95 % INTERVAL  FUNCTION\n"
		"\nno difference: 1 function differs by no more than noise, at most by +1.00 % (same)\n");
	expect_written(&(struct difference){.n_shown = 20},
		       "\nshares of all samples, of a function's own code\n"
		       "     A%      B%   CHANGE       95 % INTERVAL  FUNCTION\n"
		       "\nno difference: there is no function in both\n");
}
