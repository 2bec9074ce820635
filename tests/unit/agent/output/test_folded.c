// SPDX-License-Identifier: Apache-2.0
#include "recording.h"

#include "agent/output/folded.h"

static void expect_folded(const struct output_profile *p, bool by_container, const char *expected)
{
	const struct output_folded_options options = {.by_container = by_container};
	size_t len;
	_cleanup_free_ char *text = WRITTEN(&len, output_folded_write(p, &options, f));

	cr_expect_str_eq(text, expected, "got:\n%s", text);
}

Test(output_folded, one_line_per_distinct_stack_sorted)
{
	_cleanup_output_profile_ struct output_profile *p = recording_sample();

	expect_folded(p, false,
		      "app;[truncated: no table];libc.so.6+0x27abc 3\n"
		      "app;main;work 12\n"
		      "app;main;work;work;read;vfs_read_[k] 40\n"
		      "cron;main 2\n"
		      "cron;read;0x7f0000001234 60\n");
}

Test(output_folded, container_comes_first_on_request)
{
	_cleanup_output_profile_ struct output_profile *p = recording_sample();
	const struct frame main_frame = APP("main", 0x1100);
	const struct output_stack named = {
		.process = "app",
		.pid = 9,
		.container = CONTAINER,
		.container_name = "shop",
		.frames = &main_frame,
		.n_frames = 1,
		.count = 1,
	};

	cr_assert_eq(output_profile_add(p, &named), 0);
	expect_folded(p, true,
		      "0123456789ab;app;[truncated: no table];libc.so.6+0x27abc 3\n"
		      "0123456789ab;app;main;work 12\n"
		      "0123456789ab;app;main;work;work;read;vfs_read_[k] 40\n"
		      "host;cron;main 2\n"
		      "host;cron;read;0x7f0000001234 60\n"
		      "shop;app;main 1\n");
}

Test(output_folded, threads_on_request)
{
	const struct output_folded_options options = {.by_thread = true, .by_container = true};
	_cleanup_output_profile_ struct output_profile *p = recording_new(0);
	const struct frame main_frame = APP("main", 0x1100);
	struct output_stack stack = {
		.process = "app", .pid = 9, .frames = &main_frame, .n_frames = 1, .count = 1};
	static const char *const threads[] = {"worker;1", "main", "worker;1", NULL};
	size_t len;

	for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
		stack.thread = threads[i];
		cr_assert_eq(output_profile_add(p, &stack), 0);
	}
	stack.pid = 10; /* another process of the same name */
	cr_assert_eq(output_profile_add(p, &stack), 0);
	_cleanup_free_ char *text = WRITTEN(&len, output_folded_write(p, &options, f));

	cr_expect_str_eq(text,
			 "host;app;[unknown];main 2\n"
			 "host;app;main;main 1\n"
			 "host;app;worker:1;main 2\n",
			 "got:\n%s", text);
}

Test(output_folded, separators_in_names_are_replaced)
{
	_cleanup_output_profile_ struct output_profile *p = recording_new(0);

	ADD(p, "a;b\nc", 1, NULL, 1, APP("f;g\nh", 1), APP("x", 2));
	/* equal texts of two modules are one line */
	ADD(p, "d", 1, NULL, 1, APP("same", 1));
	ADD(p, "d", 1, NULL, 2, LIBC("same", 1));
	expect_folded(p, false, "a:b?c;x;f:g?h 1\nd;same 3\n");
}

/* One frame for a function, whatever line ran; two of one name in one file are one text. */
Test(output_folded, functions_of_a_language_runtime_have_their_file)
{
	_cleanup_output_profile_ struct output_profile *p = recording_new(0);
	static const struct frame_line odd = {"a;b", "x;y.py", 1, 1}, none = {"f", "", 1, 1};

	recording_add_python(p);
	ADD(p, "odd", 1, NULL, 1, LANGUAGE("cpython", &odd, 1), LANGUAGE("cpython", &none, 1));
	expect_folded(p, false,
		      "odd;f;a:b (x:y.py) 1\n"
		      "python3;main;<module> (main.py);f.<lambda> (main.py) 12\n"
		      "python3;main;<module> (main.py);f.<lambda> (other.py) 16\n"
		      "python3;main;[unknown function] 32\n"
		      "python3;main;collect 64\n"
		      "python3;main;eval;<module> (main.py);Shop.run (shop/__init__.py);read;vfs_read_[k] 2\n"
		      "python3;main;eval;<module> (main.py);eval;Shop.run (shop/__init__.py);read 1\n");
}

Test(output_folded, empty_profile_is_an_empty_file)
{
	_cleanup_output_profile_ struct output_profile *p = recording_new(0);

	expect_folded(p, false, "");
}

Test(output_folded, a_full_disk_is_reported)
{
	_cleanup_output_profile_ struct output_profile *p = recording_sample();
	const struct output_folded_options options = {0};
	_cleanup_fclose_ FILE *f = fopen("/dev/full", "w");

	cr_assert_not_null(f);
	cr_expect_eq(output_folded_write(p, &options, f), -EIO);
}
