// SPDX-License-Identifier: Apache-2.0
#include "recording.h"

#include "agent/output/tree.h"

static void expect_tree(const struct output_profile *p, const struct output_tree_options *options,
			const char *expected)
{
	size_t len;
	_cleanup_free_ char *text = WRITTEN(&len, output_tree_write(p, options, f));

	cr_expect_str_eq(text, expected, "got:\n%s", text);
}

Test(output_tree, functions_stand_below_their_callers)
{
	_cleanup_output_profile_ struct output_profile *p = recording_sample();

	expect_tree(p, &(struct output_tree_options){.min_percent = 5},
		    "TOTAL%   SELF%   SAMPLES  FUNCTION, WHAT IT CALLS BELOW IT\n"
		    " 51.28    0.00        60  read  libc.so.6\n"
		    " 51.28   51.28        60   0x7f0000001234\n"
		    " 46.15    1.71        54  main  app\n"
		    " 44.44   10.26        52   work  app\n"
		    " 34.19    0.00        40    work  app\n"
		    " 34.19    0.00        40     read  libc.so.6\n"
		    " 34.19   34.19        40      vfs_read  [kernel]\n"
		    "  2.56                 3  (1 more)\n");
}

Test(output_tree, callers_stand_below_the_functions_that_they_call)
{
	_cleanup_output_profile_ struct output_profile *p = recording_sample();

	expect_tree(p, &(struct output_tree_options){.min_percent = 11, .callers = true},
		    "TOTAL%   SELF%   SAMPLES  FUNCTION, ITS CALLERS BELOW IT\n"
		    " 51.28   51.28        60  0x7f0000001234\n"
		    " 51.28    0.00        60   read  libc.so.6\n"
		    " 34.19   34.19        40  vfs_read  [kernel]\n"
		    " 34.19    0.00        40   read  libc.so.6\n"
		    " 34.19    0.00        40    work  app\n"
		    " 34.19    0.00        40     work  app\n"
		    " 34.19    0.00        40      main  app\n"
		    " 14.53                17  (3 more)\n");
}

Test(output_tree, one_tree_for_each_process_container_or_thread)
{
	_cleanup_output_profile_ struct output_profile *p = recording_sample();

	expect_tree(p, &(struct output_tree_options){.min_percent = 40, .by = OUTPUT_BY_PROCESS},
		    "TOTAL%   SELF%   SAMPLES  FUNCTION, WHAT IT CALLS BELOW IT\n"
		    " 52.99    0.00        62  cron\n"
		    " 51.28    0.00        60   read  libc.so.6\n"
		    " 51.28   51.28        60    0x7f0000001234\n"
		    "  1.71                 2   (1 more)\n"
		    " 47.01    0.00        55  app\n"
		    " 44.44    0.00        52   main  app\n"
		    " 44.44   10.26        52    work  app\n"
		    "  2.56                 3   (1 more)\n");
	expect_tree(p, &(struct output_tree_options){.min_percent = 45, .by = OUTPUT_BY_CONTAINER},
		    "TOTAL%   SELF%   SAMPLES  FUNCTION, WHAT IT CALLS BELOW IT\n"
		    " 52.99    0.00        62  host\n"
		    " 51.28    0.00        60   read  libc.so.6\n"
		    " 51.28   51.28        60    0x7f0000001234\n"
		    "  1.71                 2   (1 more)\n"
		    " 47.01    0.00        55  " CONTAINER "\n"
		    " 47.01                55   (2 more)\n");
	expect_tree(p, &(struct output_tree_options){.min_percent = 60, .by = OUTPUT_BY_THREAD},
		    "TOTAL%   SELF%   SAMPLES  FUNCTION, WHAT IT CALLS BELOW IT\n"
		    "100.00    0.00       117  worker\n"
		    "100.00               117   (3 more)\n");
}

Test(output_tree, long_names_are_cut)
{
	_cleanup_output_profile_ struct output_profile *p = recording_new(0);
	char name[200];

	memset(name, 'x', sizeof name - 1);
	name[sizeof name - 1] = '\0';
	ADD(p, "app", 1, NULL, 1, APP(name, 0x1010));
	name[53] = '\0';
	_cleanup_free_ char *expected = NULL;
	cr_assert_gt(asprintf(&expected,
			      "TOTAL%%   SELF%%   SAMPLES  FUNCTION, WHAT IT CALLS BELOW IT\n"
			      "100.00  100.00         1  %s\xe2\x80\xa6\n",
			      name),
		     0);
	expect_tree(p, &(struct output_tree_options){.columns = 80}, expected);
}
