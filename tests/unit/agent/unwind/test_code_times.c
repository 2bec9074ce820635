// SPDX-License-Identifier: Apache-2.0
/* When which generated code was there, and what that says of the steps of a walk. */
#include "agent/unwind/code_times.h"
#include "bpf/abi.h"

#include <criterion/criterion.h>

#include "agent/base/clock.h"
#include "agent/base/cleanup.h"

#define CODE 0x1000ull
#define AT(ms) ((ms) * NS_PER_MS)

static void free_times(struct code_times **t)
{
	code_times_free(*t);
}

#define _cleanup_times_ _cleanup_(free_times)

static struct code_times *new_times(void)
{
	struct code_times *t;

	cr_assert_eq(code_times_new(&t), 0);
	return t;
}

/* A look knows this one part of the code, and its table is published at once. */
static void know(struct code_times *t, struct code_span s)
{
	cr_assert_eq(code_times_set(t, &s, 1), 0);
	code_times_placed(t, s.look);
}

static const struct code_span found = {
	.start = CODE, .end = CODE + 0x100, .found_ns = AT(100), .same_ns = AT(100), .look = 1};

static struct code_span same_at(uint64_t ns)
{
	struct code_span s = found;

	s.same_ns = ns;
	return s;
}

Test(code_times, is_trusted_between_two_looks)
{
	_cleanup_times_ struct code_times *t = new_times();

	know(t, found);
	cr_expect_eq(code_times_at(t, CODE + 8, AT(300), true), CODE_OTHER, "its rows are not published yet");
	code_times_published(t, AT(120));
	cr_expect_eq(code_times_at(t, CODE + 8, AT(300), true), CODE_UNSEEN);
	know(t, same_at(AT(400)));
	cr_expect_eq(code_times_at(t, CODE + 8, AT(300), true), CODE_SAME,
		     "published before, found the same later");
	cr_expect_eq(code_times_at(t, CODE + 0xff, AT(300), true), CODE_SAME);
	cr_expect_eq(code_times_at(t, CODE + 8, AT(110), true), CODE_OTHER, "before the rows were published");
	cr_expect_eq(code_times_at(t, CODE + 8, AT(410), true), CODE_UNSEEN);
	cr_expect_eq(code_times_at(t, CODE + 0x100, AT(300), true), CODE_OTHER, "no code is known there");
	cr_expect_eq(code_times_at(t, CODE + 0x100, AT(300), false), CODE_SAME);
	cr_expect(code_times_has(t, CODE));
	cr_expect_not(code_times_has(t, CODE + 0x100));
	cr_expect_eq(code_times_looks(t), 2 + 1, "two looks, and the table of the first");
}

Test(code_times, a_walk_that_was_under_way_at_the_publication)
{
	_cleanup_times_ struct code_times *t = new_times();

	know(t, found);
	code_times_published(t, AT(120));
	know(t, same_at(AT(400)));
	cr_expect_eq(code_times_at(t, CODE, AT(121), true), CODE_OTHER);
	cr_expect_eq(code_times_at(t, CODE, AT(140), true), CODE_SAME);
}

Test(code_times, only_tables_that_have_its_rows_count)
{
	_cleanup_times_ struct code_times *t = new_times();
	struct code_span s = same_at(AT(400));

	s.look = 2;
	cr_assert_eq(code_times_set(t, &s, 1), 0);
	code_times_placed(t, 1);
	code_times_published(t, AT(120));
	cr_expect_eq(code_times_at(t, CODE, AT(300), true), CODE_OTHER);
	code_times_placed(t, 2);
	code_times_published(t, AT(200));
	cr_expect_eq(code_times_at(t, CODE, AT(300), true), CODE_SAME);
}

Test(code_times, code_that_nobody_looks_at)
{
	_cleanup_times_ struct code_times *t = new_times();

	know(t, same_at(0));
	cr_expect_eq(code_times_at(t, CODE, AT(300), true), CODE_SAME);
	cr_expect_eq(code_times_at(t, CODE, AT(300), false), CODE_SAME);
}

/* An adapter where a method was. */
Test(code_times, code_that_nobody_looks_at_in_the_place_of_other_code)
{
	_cleanup_times_ struct code_times *t = new_times();
	struct code_span s = {.start = CODE, .end = CODE + 0x40, .found_ns = AT(600), .look = 2};

	know(t, found);
	code_times_published(t, AT(120));
	know(t, same_at(AT(400)));
	know(t, s);
	cr_expect_eq(code_times_at(t, CODE, AT(300), true), CODE_OTHER);
	cr_expect_eq(code_times_at(t, CODE, AT(300), false), CODE_OTHER, "the method was there");
	cr_expect_eq(code_times_at(t, CODE, AT(500), false), CODE_UNSURE);
	cr_expect_eq(code_times_at(t, CODE, AT(700), false), CODE_SAME);
	cr_expect_eq(code_times_at(t, CODE, AT(700), true), CODE_OTHER, "with the method's rows");
	code_times_published(t, AT(620));
	cr_expect_eq(code_times_at(t, CODE, AT(700), true), CODE_SAME);
}

/* A look is known before its table has room in the arena. */
Test(code_times, rows_that_are_not_in_the_arena)
{
	_cleanup_times_ struct code_times *t = new_times();
	struct code_span s = same_at(AT(400));

	know(t, found);
	s.look = 2;
	s.compile_id = 77;
	cr_assert_eq(code_times_set(t, &s, 1), 0);
	cr_expect_eq(code_times_at(t, CODE, AT(300), false), CODE_UNSEEN, "the rows are still the old ones");
	cr_expect_eq(code_times_is(t, CODE, 77), CODE_UNSEEN);
	code_times_placed(t, 2);
	cr_expect_eq(code_times_at(t, CODE, AT(300), false), CODE_SAME);
	cr_expect_eq(code_times_is(t, CODE, 77), CODE_SAME);
}

Test(code_times, freed_code)
{
	_cleanup_times_ struct code_times *t = new_times();
	struct code_span s = same_at(AT(400));

	know(t, found);
	code_times_published(t, AT(120));
	s.over = true;
	know(t, s);
	cr_expect_eq(code_times_at(t, CODE, AT(300), true), CODE_SAME, "it was there");
	cr_expect_eq(code_times_at(t, CODE, AT(300), false), CODE_SAME);
	cr_expect_eq(code_times_at(t, CODE, AT(400), true), CODE_OVER);
	cr_expect_eq(code_times_at(t, CODE, AT(500), false), CODE_OVER);
}

Test(code_times, code_in_the_place_of_other_code)
{
	_cleanup_times_ struct code_times *t = new_times();
	struct code_span s = {
		.start = CODE - 0x10, .end = CODE + 0x80, .found_ns = AT(600), .same_ns = AT(600), .look = 3};

	know(t, found);
	code_times_published(t, AT(120));
	know(t, same_at(AT(400)));
	know(t, s);
	cr_expect_eq(code_times_at(t, CODE, AT(300), false), CODE_OTHER, "the other one was there");
	cr_expect_eq(code_times_at(t, CODE, AT(500), false), CODE_UNSURE, "either may have been");
	cr_expect_eq(code_times_at(t, CODE - 0x10, AT(300), false), CODE_UNSURE);
	cr_expect_eq(code_times_at(t, CODE, AT(700), false), CODE_UNSEEN);
	cr_expect_eq(code_times_at(t, CODE, AT(500), true), CODE_OTHER, "with the other one's rows");
}

Test(code_times, places_without_code)
{
	_cleanup_times_ struct code_times *t = new_times();

	code_times_add_empty(t, CODE, AT(400));
	cr_expect(code_times_is_empty(t, CODE, AT(300)));
	cr_expect_not(code_times_is_empty(t, CODE, AT(400)), "there may have been some by then");
	cr_expect_not(code_times_is_empty(t, CODE + 1, AT(300)));
	for (unsigned i = 0; i < 10000; i++)
		code_times_add_empty(t, CODE + 0x100 + i, AT(500));
	cr_expect_not(code_times_is_empty(t, CODE, AT(300)), "the newest are known");
	cr_expect(code_times_is_empty(t, CODE + 0x100 + 9999, AT(300)));
}

Test(code_times, what_is_gone_is_bounded)
{
	_cleanup_times_ struct code_times *t = new_times();

	for (unsigned i = 0; i < 20000; i++) {
		struct code_span s = found;

		s.look = i;
		s.found_ns = s.same_ns = AT(100 + i);
		know(t, s);
	}
	cr_expect_eq(code_times_at(t, CODE, AT(100), false), CODE_UNSURE);
}

/* --- samples that say which code it was */

#define ID 77u

static uint64_t code_of(uint32_t id, uint64_t flags)
{
	return 6ull << FRAME_CODE_ID_BITS | id | flags;
}

static struct code_span compiled_at(uint64_t found_ns, uint32_t id, uint64_t look)
{
	return (struct code_span){.start = CODE,
				  .end = CODE + 0x100,
				  .found_ns = found_ns,
				  .same_ns = found_ns,
				  .look = look,
				  .compile_id = id};
}

Test(code_times, a_step_by_the_size_of_the_frame)
{
	_cleanup_times_ struct code_times *t = new_times();
	const struct code_span other = compiled_at(AT(500), ID + 1, 2);
	const uint64_t code = code_of(ID, FRAME_CODE_BY_SIZE);

	cr_expect_eq(code_times_of(t, CODE, AT(100), code), CODE_UNSEEN);
	know(t, compiled_at(AT(200), ID, 1));
	cr_expect_eq(code_times_of(t, CODE, AT(100), code), CODE_SAME, "whenever it was found");
	cr_expect_eq(code_times_of(t, CODE, AT(900), code), CODE_SAME);
	cr_expect_eq(code_times_of(t, CODE, AT(100), code_of(ID + 9, FRAME_CODE_BY_SIZE)), CODE_GONE,
		     "a later look has found another one");
	cr_expect_eq(code_times_of(t, CODE, AT(300), code_of(ID + 9, FRAME_CODE_BY_SIZE)), CODE_UNSEEN,
		     "nobody has looked since");
	cr_expect_eq(code_times_is(t, CODE, ID), CODE_SAME);
	cr_expect_eq(code_times_is(t, CODE, ID + 1), CODE_OTHER);
	cr_assert_eq(code_times_set(t, &other, 1), 0);
	cr_expect_eq(code_times_of(t, CODE, AT(600), code), CODE_GONE, "it was known before");
	cr_expect_eq(code_times_of(t, CODE, AT(400), code_of(ID + 1, FRAME_CODE_BY_SIZE)), CODE_UNSEEN,
		     "its rows are not in the arena yet");
	code_times_add_empty(t, CODE + 0x400, AT(700));
	cr_expect_eq(code_times_of(t, CODE + 0x400, AT(600), code), CODE_GONE, "nothing is there");
	cr_expect_eq(code_times_of(t, CODE + 0x400, AT(800), code), CODE_UNSEEN);
}

Test(code_times, a_step_by_a_row)
{
	_cleanup_times_ struct code_times *t = new_times();

	cr_expect_eq(code_times_of(t, CODE, AT(300), code_of(ID, 0)), CODE_UNSEEN, "whose row it was");
	know(t, compiled_at(AT(100), ID, 1));
	cr_expect_eq(code_times_of(t, CODE, AT(300), code_of(ID, 0)), CODE_OTHER, "not published yet");
	code_times_published(t, AT(200));
	cr_expect_eq(code_times_of(t, CODE, AT(300), code_of(ID, 0)), CODE_SAME);
	cr_expect_eq(code_times_of(t, CODE, AT(205), code_of(ID, 0)), CODE_OTHER, "published meanwhile");
	cr_expect_eq(code_times_of(t, CODE, AT(300), code_of(ID + 1, 0)), CODE_UNSEEN);
	cr_expect_eq(code_times_of(t, CODE, AT(90), code_of(ID + 1, 0)), CODE_OTHER, "it will not be known");
}

/* A sample has the low bits of the number. */
Test(code_times, large_numbers)
{
	_cleanup_times_ struct code_times *t = new_times();

	know(t, compiled_at(AT(100), 1u << FRAME_CODE_ID_BITS | ID, 1));
	cr_expect_eq(code_times_of(t, CODE, AT(300), code_of(ID, FRAME_CODE_BY_SIZE)), CODE_SAME);
}
