// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/frame.h"
#include "agent/report/language_names.h"
#include "agent/sample/frames.h"
#include "fake_code_names.h"

static uint64_t number_at(struct language_names *n, enum frame_runtime runtime, uint64_t code, int64_t offset)
{
	const uint64_t words[] = {frame_runtime_head(runtime, 1, code), (uint64_t)offset};
	const struct stack_frame f = {
		.kind = STACK_FRAME_RUNTIME, .word = words[0], .following = words + 1, .n_following = 1};

	return language_names_number(n, &f);
}

static struct language_names *names_of(struct code_names *code)
{
	struct language_names *n = NULL;

	cr_assert_eq(language_names_new(&n, code), 0);
	return n;
}

static const struct fake_code codes[] = {
	{1, 4, {"", "A.run", "/srv/a.py", 10, 12}},    {1, 8, {"", "A.run", "/srv/a.py", 10, 13}},
	{2, 40, {"", "A.run", "/srv/a.py", 10, 12}},   {3, 4, {"", "A.run", "/srv/b.py", 10, 12}},
	{4, 4, {"", "A.run", "/srv/a.py", 11, 12}},    {5, -1, {"", "<module>", "", 0, 0}},
	{6, 4, {"", "A.runner", "/srv/a.py", 10, 12}},
};

Test(language_names, equal_functions_and_lines_have_equal_numbers)
{
	struct code_names code = {.codes = codes, .n = ARRAY_SIZE(codes)};
	struct language_names *n = names_of(&code);
	uint64_t run = number_at(n, RUNTIME_CPYTHON, 1, 4);
	struct frame f;

	cr_expect_eq(frame_tag(run), FRAME_TAG_LANGUAGE);
	cr_expect_eq(number_at(n, RUNTIME_CPYTHON, 1, 4), run);
	cr_expect_eq(code.asked, 1, "it is asked once for a frame");
	cr_expect_eq(number_at(n, RUNTIME_CPYTHON, 2, 40), run, "the same function in another process");
	cr_expect_neq(number_at(n, RUNTIME_CPYTHON, 1, 8), run, "another line");
	cr_expect_neq(number_at(n, RUNTIME_CPYTHON, 3, 4), run, "another file");
	cr_expect_neq(number_at(n, RUNTIME_CPYTHON, 4, 4), run, "another first line");
	cr_expect_neq(number_at(n, RUNTIME_CPYTHON, 6, 4), run, "another name");
	cr_expect_neq(number_at(n, RUNTIME_RUBY, 1, 4), run, "another runtime");
	cr_assert(language_names_frame(n, run, &f));
	cr_expect_str_eq(f.function, "A.run");
	cr_expect_str_eq(f.runtime, "cpython");
	cr_expect_eq(f.start_line, 10);
	cr_assert_eq(f.n_lines, 1);
	cr_expect_str_eq(f.lines->function, "A.run");
	cr_expect_str_eq(f.lines->file, "/srv/a.py");
	cr_expect_eq(f.lines->line, 12);
	cr_expect_eq(f.kind, FRAME_NATIVE);
	cr_expect_null(f.module);
	cr_expect_eq(f.address, 0);
	cr_expect_null(f.system_name);
	cr_assert(language_names_frame(n, number_at(n, RUNTIME_CPYTHON, 5, -1), &f));
	cr_expect_str_eq(f.lines->file, "");
	cr_expect_eq(language_names_unknown(n), 0);
	cr_expect_gt(language_names_bytes(n), 0);
	cr_expect_not(language_names_frame(n, frame_native(3, 0x1000), &f));
	language_names_free(n);
	language_names_free(NULL);
}

Test(language_names, frames_without_a_name_share_one_for_each_runtime)
{
	struct code_names code = {0};
	struct language_names *n = names_of(&code), *none = names_of(NULL);
	uint64_t a = number_at(n, RUNTIME_CPYTHON, 1, 4);
	struct frame f;

	cr_expect_eq(number_at(n, RUNTIME_CPYTHON, 2, 4), a);
	cr_expect_eq(number_at(n, RUNTIME_CPYTHON, 2, 4), a);
	cr_expect_neq(number_at(n, RUNTIME_RUBY, 2, 4), a);
	cr_expect_eq(language_names_unknown(n), 3, "different frames: %lu", language_names_unknown(n));
	cr_assert(language_names_frame(n, a, &f));
	cr_expect_str_eq(f.function, "[unknown function]");
	cr_expect_str_eq(f.runtime, "cpython");
	cr_expect_eq(f.n_lines, 0);
	cr_expect_eq(number_at(none, RUNTIME_CPYTHON, 1, 4), a);
	language_names_free(n);
	language_names_free(none);
}

/* A tenant may say that its function has no name. */
Test(language_names, an_empty_name_is_none)
{
	static const struct fake_code one = {1, 0, {"", "", "", 0, 0}};
	struct code_names code = {.codes = &one, .n = 1};
	struct language_names *n = names_of(&code);
	struct frame f;

	cr_assert(language_names_frame(n, number_at(n, RUNTIME_JVM, 1, 0), &f));
	cr_expect_str_eq(f.function, "[unknown function]");
	cr_expect_eq(f.n_lines, 0);
	cr_expect_eq(language_names_unknown(n), 1);
	language_names_free(n);
}

/* The texts of code_names change with the next report; those of the window do not. */
Test(language_names, texts_are_copied_and_end_with_the_window)
{
	char name[] = "work";
	const struct fake_code one = {1, 0, {"", name, name, 1, 2}};
	struct code_names code = {.codes = &one, .n = 1};
	struct language_names *n = names_of(&code);
	uint64_t number = number_at(n, RUNTIME_CPYTHON, 1, 0);
	struct frame f;

	memset(name, 'x', sizeof name - 1);
	cr_assert(language_names_frame(n, number, &f));
	cr_expect_str_eq(f.function, "work");
	cr_expect_str_eq(f.lines->file, "work");
	language_names_clear(n);
	cr_assert(language_names_frame(n, number, &f),
		  "a number of the window before is not read beyond the table");
	cr_expect_str_eq(f.function, "[unknown function]");
	number = number_at(n, RUNTIME_CPYTHON, 1, 0);
	cr_assert(language_names_frame(n, number, &f));
	cr_expect_str_eq(f.function, "xxxx");
	language_names_free(n);
}

/* A window of 200,000 lines: the first ones have names, the others are counted. */
Test(language_names, memory_is_bounded)
{
	enum { N = 200000 };
	struct fake_code one = {0, 0, {"", "f", "f.py", 1, 0}};
	struct code_names code = {.codes = &one, .n = 1};
	struct language_names *n = names_of(&code);
	size_t bytes;
	struct frame f;

	for (uint32_t i = 0; i < N; i++) {
		one.number = i + 1;
		one.place.line = i + 1;
		(void)number_at(n, RUNTIME_CPYTHON, one.number, 0);
	}
	bytes = language_names_bytes(n);
	cr_expect_lt(bytes, 32u << 20, "%zu", bytes);
	cr_expect_eq(language_names_unknown(n), N - (1u << 17));
	one.number = 5;
	cr_assert(language_names_frame(n, number_at(n, RUNTIME_CPYTHON, 5, 0), &f));
	cr_expect_eq(f.lines->line, 5);
	language_names_free(n);
}
