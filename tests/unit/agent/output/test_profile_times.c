// SPDX-License-Identifier: Apache-2.0
#include "recording.h"

#include "agent/base/clock.h"
#include "agent/output/profile_private.h"

#define BEGIN_NS (1700000000 * NS_PER_SEC)

/* Adds n samples of a stack (one for each `address`), the first at `from`, the others `step` ns apart. */
static int add_times(struct output_profile *p, uint32_t pid, uint64_t address, uint64_t from, uint64_t step,
		     size_t n)
{
	const struct frame frame = APP("f", address);
	_cleanup_free_ uint64_t *times = calloc(n, sizeof *times);
	const struct output_stack s = {.process = "app",
				       .pid = pid,
				       .frames = &frame,
				       .n_frames = 1,
				       .count = n,
				       .times = times,
				       .complete = true};

	cr_assert_not_null(times);
	for (size_t i = 0; i < n; i++)
		times[i] = from + i * step;
	return output_profile_add(p, &s);
}

static uint64_t sum_cells(const struct output_profile *p, const struct output_node *n, uint64_t from,
			  uint64_t to)
{
	uint64_t sum = 0;

	for (uint32_t at = n->cells; at; at = p->times.cells[at].next) {
		const struct output_cell *c = &p->times.cells[at];

		sum += c->column << p->times.shift >= from && c->column << p->times.shift < to ? c->count : 0;
	}
	for (const struct output_node *c = n->child; c; c = c->sibling)
		sum += sum_cells(p, c, from, to);
	return sum;
}

/* Samples in all columns that begin in [from, to). */
static uint64_t samples_within(const struct output_profile *p, uint64_t from, uint64_t to)
{
	uint64_t sum = 0;

	for (uint32_t id = 1; id <= output_table_len(&p->groups); id++)
		sum += sum_cells(p, &output_group_of(p, id)->root, from, to);
	return sum;
}

Test(output_profile_times, short_recordings_have_columns_of_a_millisecond)
{
	_cleanup_output_profile_ struct output_profile *p = recording_new(0);

	cr_assert_eq(add_times(p, 1, 1, BEGIN_NS, 2 * NS_PER_MS, 100), 0);
	cr_expect_eq(p->times.shift, 20);
	cr_expect_eq(p->times.n_samples, 100);
	cr_expect_eq(output_times_columns(&p->times),
		     1 + (BEGIN_NS + 198 * NS_PER_MS) / (1 << 20) - BEGIN_NS / (1 << 20));
	cr_expect_eq(samples_within(p, 0, UINT64_MAX), 100);
}

Test(output_profile_times, columns_become_wider_and_no_sample_is_lost)
{
	_cleanup_output_profile_ struct output_profile *p = recording_new(0);
	const uint64_t hour = 3600 * NS_PER_SEC;
	uint64_t width;

	cr_assert_eq(add_times(p, 1, 1, BEGIN_NS + hour, NS_PER_SEC / 100, 6000),
		     0); /* a minute, after an hour */
	cr_assert_eq(add_times(p, 1, 2, BEGIN_NS, NS_PER_SEC, 3600),
		     0); /* comes later: times are in no order */
	width = (uint64_t)1 << p->times.shift;
	cr_expect_leq(output_times_columns(&p->times), OUTPUT_MAX_COLUMNS);
	cr_expect_gt(output_times_columns(&p->times), OUTPUT_MAX_COLUMNS / 2 - 1);
	cr_expect_eq(samples_within(p, 0, UINT64_MAX), 9600);
	cr_expect_eq(samples_within(p, BEGIN_NS / width * width, (BEGIN_NS + hour / 2) / width * width),
		     ((BEGIN_NS + hour / 2) / width * width - BEGIN_NS + NS_PER_SEC - 1) / NS_PER_SEC);
}

Test(output_profile_times, as_many_pairs_as_nodes_can_be)
{
	_cleanup_output_profile_ struct output_profile *p = recording_new(64);
	const size_t max = p->times.max_cells;

	for (uint64_t address = 1; address <= 64; address++)
		add_times(p, 1, address, BEGIN_NS + address, 2 * NS_PER_MS, max / 8);
	cr_expect_leq(p->times.n_used, max, "%zu", p->times.n_used);
	cr_expect_eq(samples_within(p, 0, UINT64_MAX), 64 * (max / 8));
	cr_expect_leq(p->times.n, 2 * max, "cells are used again: %zu", p->times.n);
}

Test(output_profile_times, stacks_without_room_have_times_as_well)
{
	_cleanup_output_profile_ struct output_profile *p = recording_new(1);

	cr_expect_eq(add_times(p, 1, 1, BEGIN_NS, 0, 5), 0);
	cr_expect_eq(add_times(p, 1, 2, BEGIN_NS, 0, 7), -ENOSPC);
	cr_expect_eq(samples_within(p, 0, UINT64_MAX), 12);
}

Test(output_profile_times, folded_processes_keep_their_times)
{
	_cleanup_output_profile_ struct output_profile *p = recording_new(4096);
	uint64_t n = 0;

	for (uint32_t pid = 1; pid <= 4000; pid++, n += 3)
		add_times(p, pid, 1 + pid % 2, BEGIN_NS + pid * NS_PER_MS, NS_PER_MS, 3);
	cr_expect_lt(output_table_len(&p->groups), 4000, "processes were folded");
	cr_expect_eq(samples_within(p, 0, UINT64_MAX), n);
}

Test(output_profile_times, samples_without_a_time_are_no_error)
{
	_cleanup_output_profile_ struct output_profile *p = recording_sample();

	cr_expect_eq(p->times.n_samples, 0);
	cr_expect_eq(output_times_columns(&p->times), 0);
}
