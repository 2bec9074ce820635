// SPDX-License-Identifier: Apache-2.0
#include "recording.h"

#include "agent/output/display_text.h"
#include "agent/output/top.h"

static char *top(const struct output_profile *p, struct output_top_options options)
{
	size_t len;

	return WRITTEN(&len, output_top_write(p, &options, f));
}

Test(output_top, exact_text)
{
	_cleanup_output_profile_ struct output_profile *p = recording_sample();
	_cleanup_free_ char *text = top(p, (struct output_top_options){.columns = 80, .n_functions = 4});

	/* 117 samples; the recursion of `work` counts once; `read` is below both processes */
	cr_expect_str_eq(text,
			 " SELF%  TOTAL%   SAMPLES  FUNCTION                                 MODULE\n"
			 " 51.28   51.28        60  0x7f0000001234\n"
			 " 34.19   34.19        40  vfs_read                                 [kernel]\n"
			 " 10.26   44.44        12  work                                     app\n"
			 "  2.56    2.56         3  libc.so.6+0x27abc                        libc.so.6\n"
			 "\n"
			 "SHARE%    PIDS   SAMPLES  PROCESS\n"
			 " 52.99       1        62  cron\n"
			 " 47.01       2        55  app\n"
			 "\n"
			 "SHARE%    PIDS   SAMPLES  CONTAINER\n"
			 " 52.99       1        62  host\n"
			 " 47.01       2        55  0123456789ab\n"
			 "\n"
			 "117 samples, 2.0 s at 100 Hz, 97.4 % complete stacks, 3 dropped\n",
			 "got:\n%s", text);
}

Test(output_top, functions_of_a_language_runtime_have_their_file)
{
	_cleanup_output_profile_ struct output_profile *p = recording_new(0);
	_cleanup_free_ char *text = NULL;

	recording_add_python(p);
	text = top(p, (struct output_top_options){.columns = 80, .n_functions = 5});
	cr_expect_not_null(
		strstr(text, " 50.39   50.39        64  collect                                  app\n"
			     " 25.20   25.20        32  [unknown function]                       cpython\n"
			     " 12.60   12.60        16  f.<lambda>                               other.py\n"
			     "  6.30    6.30         8  f.<lambda>                               main.py\n"
			     "  3.15    3.15         4  f.<lambda>                               main.py\n"),
		"got:\n%s", text);
}

Test(output_top, lines_fit_the_width)
{
	_cleanup_output_profile_ struct output_profile *p = recording_new(0);
	static const unsigned asked[] = {1, 80, 100, 120, 999}, widths[] = {80, 80, 100, 120, 120};
	char name[400], process[400];

	memset(name, 'n', sizeof name - 1);
	memset(process, 'p', sizeof process - 1);
	name[sizeof name - 1] = process[sizeof process - 1] = '\0';
	const struct frame_module m = {.path = name, .name = name};
	const struct frame frame = {.module = &m, .function = name};
	const struct output_stack s = {
		.process = process,
		.container = CONTAINER,
		.container_name = name,
		.frames = &frame,
		.n_frames = 1,
		.count = 3,
	};

	cr_assert_eq(output_profile_add(p, &s), 0);
	for (size_t i = 0; i < ARRAY_SIZE(asked); i++) {
		_cleanup_free_ char *text = top(p, (struct output_top_options){.columns = asked[i]});

		for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
			cr_expect_leq(output_text_columns(line), widths[i], "%s", line);
	}
}

Test(output_top, colour_only_if_enabled_or_on_a_terminal)
{
	_cleanup_output_profile_ struct output_profile *p = recording_sample();
	_cleanup_free_ char *plain = top(p, (struct output_top_options){0});
	_cleanup_free_ char *colour = top(p, (struct output_top_options){.colour = OUTPUT_COLOUR_ALWAYS});

	cr_expect_null(strchr(plain, '\033'));
	cr_expect_not_null(strstr(colour, "\033[1m"));
}

Test(output_top, names_cannot_drive_the_terminal)
{
	_cleanup_output_profile_ struct output_profile *p = recording_new(0);
	_cleanup_free_ char *text = NULL;

	ADD(p, "evil\033[2J", 1, "\033]0;title\007", 1, APP("\033[31mred\r\n", 1));
	text = top(p, (struct output_top_options){0});
	cr_expect_null(strpbrk(text, "\033\007\r"));
}

Test(output_top, an_empty_profile_has_no_rows)
{
	_cleanup_output_profile_ struct output_profile *p = recording_new(0);
	_cleanup_free_ char *text = top(p, (struct output_top_options){0});

	cr_expect_not_null(strstr(text, "\n0 samples, 2.0 s at 100 Hz"));
}
