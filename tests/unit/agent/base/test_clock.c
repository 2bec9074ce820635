// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>

#include "agent/base/cleanup.h"
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

Test(clock, tick_is_the_kernels)
{
	uint64_t ns = clock_tick_ns();

	cr_assert_geq(ns, NS_PER_SEC / 1000);
	cr_assert_leq(ns, NS_PER_SEC / 100);
}

Test(clock, offset_turns_monotonic_into_wall_time)
{
	int64_t offset = clock_real_offset_ns();
	uint64_t before = clock_real_ns(), mono = clock_mono_ns(), after = clock_real_ns();
	int64_t computed = (int64_t)mono + offset;

	/* A millisecond allows for a clock that is being adjusted and a thread that was interrupted. */
	cr_assert(computed >= (int64_t)before - 1000000 && computed <= (int64_t)after + 1000000);
	cr_assert_gt(before, 1600000000 * NS_PER_SEC);
}

Test(clock, thread_time_counts_work)
{
	uint64_t wall = clock_mono_ns(), start = clock_thread_cpu_ns(); /* the longer one first */

	while (clock_thread_cpu_ns() - start < 2 * NS_PER_MS)
		;
	cr_assert_geq(clock_mono_ns() - wall, 2 * NS_PER_MS - NS_PER_MS / 10);
}

Test(clock, steps)
{
	struct clock_steps c = {0};

	cr_expect_eq(clock_steps_note(&c, 1000, 5000000000), 0);
	cr_expect_eq(clock_steps_unix_ns(&c, 500), 5000000500, "what was before holds too");
	cr_expect_eq(clock_steps_note(&c, 2000, 5000000000 + CLOCK_STEP_NS - 1), 0,
		     "that is how well it is read");
	cr_expect_eq(clock_steps_note(&c, 3000, 5000000000 - CLOCK_STEP_NS + 1), 0);
	cr_expect_eq(clock_steps_unix_ns(&c, 4000), 5000004000);
	cr_expect_eq(clock_steps_note(&c, 10000, 9000000000), 4000000000);
	cr_expect_eq(clock_steps_note(&c, 20000, 1000000000), -8000000000);
	cr_expect_eq(clock_steps_unix_ns(&c, 9999), 5000009999);
	cr_expect_eq(clock_steps_unix_ns(&c, 10000), 9000010000);
	cr_expect_eq(clock_steps_unix_ns(&c, 19999), 9000019999);
	cr_expect_eq(clock_steps_unix_ns(&c, UINT32_MAX), 1000000000ull + UINT32_MAX);
}

Test(clock, steps_are_bounded)
{
	struct clock_steps c = {0};

	for (uint64_t i = 0; i < CLOCK_STEPS_MAX + 10; i++)
		clock_steps_note(&c, i * 1000, (int64_t)(i + 1) * 1000000000);
	cr_expect_eq(c.n, CLOCK_STEPS_MAX);
	cr_expect_eq(clock_steps_unix_ns(&c, (CLOCK_STEPS_MAX + 9) * 1000 + 1),
		     (CLOCK_STEPS_MAX + 10) * 1000000000ull + (CLOCK_STEPS_MAX + 9) * 1000 + 1);
	cr_expect_eq(clock_steps_unix_ns(&c, 0), 11000000000, "the oldest that is known");
}

/* The clock is not set here: the timer must be armed and stay quiet. tests/kernel sets the clock. */
Test(clock, watch)
{
	_cleanup_close_ int fd = clock_watch_open();
	struct pollfd p = {.fd = fd, .events = POLLIN};

	cr_assert_geq(fd, 0);
	cr_expect_eq(poll(&p, 1, 0), 0);
	cr_expect_eq(clock_watch_again(fd), 0);
	cr_expect_eq(poll(&p, 1, 0), 0);
}
