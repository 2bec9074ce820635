// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <stdlib.h>
#include <time.h>

#include "agent/base/clock.h"

Test(clock, monotonic_does_not_go_back_and_is_the_kernels)
{
	struct timespec ts;
	uint64_t a = clock_mono_ns(), b, c;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	b = (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec;
	c = clock_mono_ns();
	cr_assert(a <= b && b <= c);
}

Test(clock, offset_turns_monotonic_into_wall_time)
{
	int64_t offset = clock_real_offset_ns();
	uint64_t before = clock_real_ns(), mono = clock_mono_ns(), after = clock_real_ns();
	int64_t computed = (int64_t)mono + offset;

	/* a millisecond for a clock that is being adjusted and a thread that lost its CPU in between */
	cr_assert(computed >= (int64_t)before - 1000000 && computed <= (int64_t)after + 1000000);
	cr_assert_gt(before, 1600000000 * NS_PER_SEC);
}

Test(clock, thread_time_counts_work)
{
	uint64_t start = clock_thread_cpu_ns(), wall = clock_mono_ns();

	while (clock_thread_cpu_ns() - start < 2 * NS_PER_MS)
		;
	cr_assert_geq(clock_mono_ns() - wall, 2 * NS_PER_MS - NS_PER_MS / 10);
}
