// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/recording/selection.h"

static const struct frame_line inlined[] = {{"tiny", "/src/a.h", 3, 2}, {"work", "/src/a.c", 12, 9}};
static const struct frame frames[] = {
	{.function = "work", .lines = inlined, .n_lines = ARRAY_SIZE(inlined), .start_line = 9},
	{.function = "main"},
	{.address = 0x123},
};
static const struct output_stack stack = {
	.process = "app", .frames = frames, .n_frames = ARRAY_SIZE(frames), .count = 1};

static struct stack_selection *selection(const char *focus, const char *ignore, bool lines)
{
	struct stack_selection *s = NULL;
	char *why = NULL;

	cr_assert_eq(stack_selection_new(&s, &(struct stack_selection_options){focus, ignore, lines}, &why),
		     0, "%s", why);
	return s;
}

static int applied(const char *focus, const char *ignore)
{
	struct stack_selection *s = selection(focus, ignore, false);
	struct output_stack ret;
	const int r = stack_selection_apply(s, &stack, &ret);

	stack_selection_free(s);
	return r;
}

Test(stack_selection, stacks_are_chosen_by_their_functions)
{
	cr_expect_eq(applied(NULL, NULL), 1);
	cr_expect_eq(applied("^ma", NULL), 1);
	cr_expect_eq(applied("tiny|other", NULL), 1); /* inlined */
	cr_expect_eq(applied("^ain", NULL), 0);
	cr_expect_eq(applied(NULL, "work"), 0);
	cr_expect_eq(applied(NULL, "nothing"), 1);
	cr_expect_eq(applied("main", "tiny"), 0);
}

Test(stack_selection, inlined_calls_are_frames)
{
	struct stack_selection *s = selection(NULL, NULL, false);
	struct output_stack ret;

	cr_assert_eq(stack_selection_apply(s, &stack, &ret), 1);
	cr_assert_eq(ret.n_frames, 4);
	cr_expect_str_eq(ret.frames[0].function, "tiny");
	cr_expect_str_eq(ret.frames[0].lines->file, "/src/a.h");
	cr_expect_eq(ret.frames[0].start_line, 2);
	cr_expect_str_eq(ret.frames[1].function, "work");
	cr_expect_eq(ret.frames[1].start_line, 9);
	cr_expect_str_eq(ret.frames[2].function, "main");
	cr_expect_null(ret.frames[3].function);
	stack_selection_free(s);
}

Test(stack_selection, lines_tell_functions_apart)
{
	struct stack_selection *s = selection(NULL, NULL, true);
	struct output_stack ret;

	for (int i = 0; i < 2; i++) { /* the second stack takes the place of the first one */
		cr_assert_eq(stack_selection_apply(s, &stack, &ret), 1);
		cr_expect_str_eq(ret.frames[0].function, "tiny a.h:3");
		cr_expect_str_eq(ret.frames[1].function, "work a.c:12");
		cr_expect_str_eq(ret.frames[2].function, "main");
	}
	stack_selection_free(s);
}

Test(stack_selection, a_pattern_that_is_none_is_reported)
{
	struct stack_selection *s = NULL;
	_cleanup_free_ char *why = NULL;

	cr_expect_eq(stack_selection_new(&s, &(struct stack_selection_options){.ignore = "a(b"}, &why),
		     -EINVAL);
	cr_assert_not_null(why);
	cr_expect(strncmp(why, "--ignore: \"a(b\" is no regular expression: ", 42) == 0, "%s", why);
	cr_expect_null(s);
}
