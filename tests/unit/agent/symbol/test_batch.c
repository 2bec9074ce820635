// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/parser/operation.h"
#include "agent/symbol/batch.h"

struct span {
	uint64_t start, end;
	const char *name;
};

static struct symbol_ranges make(const struct span *spans, size_t n)
{
	struct symbol_ranges r = {calloc(n ? n : 1, sizeof *r.v), n};

	for (size_t i = 0; i < n; i++)
		r.v[i] = (struct symbol_range){.start = spans[i].start,
					       .end = spans[i].end,
					       .names = spans[i].name ? strdup(spans[i].name) : NULL};
	return r;
}

Test(batch, ranges_are_merged)
{
	static const struct {
		struct span into[3], from[3], expected[5];
		size_t n_into, n_from, n_expected;
	} rows[] = {
		{{{0}}, {{1, 2, "a"}}, {{1, 2, "a"}}, 0, 1, 1},
		{{{1, 2, "a"}}, {{0}}, {{1, 2, "a"}}, 1, 0, 1},
		{{{10, 20, "b"}},
		 {{1, 10, "a"}, {20, 30, "c"}},
		 {{1, 10, "a"}, {10, 20, "b"}, {20, 30, "c"}},
		 1,
		 2,
		 3},
		/* equal ranges */
		{{{10, 20, "b"}}, {{10, 20, "x"}}, {{10, 20, "b"}}, 1, 1, 1},
		/* overlaps: the range that starts first gets the common part */
		{{{10, 20, "a"}}, {{15, 25, "b"}}, {{10, 20, "a"}, {20, 25, "b"}}, 1, 1, 2},
		{{{15, 25, "a"}}, {{10, 20, "b"}}, {{10, 20, "b"}, {20, 25, "a"}}, 1, 1, 2},
		{{{12, 14, "a"}, {16, 18, "b"}}, {{10, 20, "c"}}, {{10, 20, "c"}}, 2, 1, 1},
		{{{10, 20, "a"}}, {{12, 14, "b"}, {16, 30, "c"}}, {{10, 20, "a"}, {20, 30, "c"}}, 1, 2, 2},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct symbol_ranges into = make(rows[i].into, rows[i].n_into);
		struct symbol_ranges from = make(rows[i].from, rows[i].n_from);

		cr_assert_eq(symbol_ranges_merge(&into, &from), 0);
		cr_expect_eq(from.n, 0);
		cr_assert_eq(into.n, rows[i].n_expected, "row %zu: %zu", i, into.n);
		for (size_t k = 0; k < into.n; k++) {
			cr_expect_eq(into.v[k].start, rows[i].expected[k].start, "row %zu range %zu", i, k);
			cr_expect_eq(into.v[k].end, rows[i].expected[k].end, "row %zu range %zu", i, k);
			cr_expect_str_eq(into.v[k].names, rows[i].expected[k].name, "row %zu range %zu", i,
					 k);
		}
		symbol_ranges_fini(&into);
		symbol_ranges_fini(&from);
	}
}

Test(batch, ranges_are_found)
{
	static const struct span spans[] = {{10, 20, NULL}, {20, 21, NULL}, {40, UINT64_MAX, NULL}};
	static const struct {
		uint64_t va;
		int index;
	} rows[] = {{0, -1},  {9, -1},	{10, 0}, {19, 0},	  {20, 1},
		    {21, -1}, {39, -1}, {40, 2}, {UINT64_MAX, -1}};
	struct symbol_ranges r = make(spans, ARRAY_SIZE(spans));

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct symbol_range *x = symbol_ranges_find(&r, rows[i].va);

		cr_expect_eq(x, rows[i].index < 0 ? NULL : &r.v[rows[i].index], "row %zu", i);
	}
	symbol_ranges_truncate(&r, 1);
	cr_expect_null(symbol_ranges_find(&r, 20));
	symbol_ranges_truncate(&r, 0);
	cr_expect_null(symbol_ranges_find(&r, 10));
	symbol_ranges_fini(&r);
}

/* UBSan looks at each flag that is used. */
Test(batch, a_request_of_any_bytes_is_refused)
{
	const int fds[2] = {-1, -1};
	uint8_t bytes[512];
	struct parser_job job = {.request = bytes, .request_len = sizeof bytes, .fds = fds};

	memset(bytes, 0xff, sizeof bytes);
	for (job.n_fds = 0; job.n_fds <= 2; job.n_fds++)
		cr_expect_eq(symbol_operation.run(&job), -EINVAL);
}
