// SPDX-License-Identifier: Apache-2.0
#include "agent/pace.h"

#include <criterion/criterion.h>

#include "agent/base/clock.h"
#include "agent/base/loop.h"

#define TURNS 12u

struct turns {
	struct loop *loop;
	struct pace pace;
	unsigned n, woken;
	unsigned busy_at;  /* turn with something to do; 0: none */
	unsigned hurry_to; /* up to that turn, what there is to do cannot be done later */
	uint64_t at_ns[TURNS];
};

static void on_wake_early(void *data)
{
	struct turns *t = data;

	t->woken++;
}

static int on_turn(uint64_t expirations, void *data)
{
	struct turns *t = data;

	(void)expirations;
	t->at_ns[t->n++] = clock_mono_ns();
	pace_drained(&t->pace);
	if (t->n == TURNS)
		loop_stop(t->loop);
	else if (t->n <= t->hurry_to)
		pace_hurry(&t->pace);
	else if (t->n == t->busy_at)
		pace_busy(&t->pace);
	else
		pace_calm(&t->pace);
	return 0;
}

static uint64_t longest_ns(const struct turns *t, unsigned from, unsigned to)
{
	uint64_t most = 0;

	for (unsigned i = from; i < to; i++)
		if (t->at_ns[i] - t->at_ns[i - 1] > most)
			most = t->at_ns[i] - t->at_ns[i - 1];
	return most;
}

static void run(struct turns *t)
{
	cr_assert_eq(loop_new(&t->loop), 0);
	cr_assert_eq(pace_start(&t->pace, t->loop, on_turn, on_wake_early, t), 0);
	cr_assert_eq(loop_run(t->loop), 0);
	loop_free(t->loop);
}

Test(pace, is_slow_when_nothing_comes_and_wants_to_be_woken)
{
	struct turns t = {0};
	uint64_t before = clock_mono_ns();

	run(&t);
	cr_expect(t.pace.slow);
	cr_expect_geq(t.at_ns[TURNS - 1] - before, 3000 * NS_PER_MS, "8 of 12 turns take 400 ms");
	cr_expect_geq(t.woken, TURNS - 4, "again after each turn: %u", t.woken);
}

Test(pace, is_quick_as_soon_as_something_comes)
{
	struct turns t = {.busy_at = 6};

	run(&t);
	cr_expect_geq(longest_ns(&t, 4, 6), 300 * NS_PER_MS, "slow before");
	cr_expect_lt(t.at_ns[8] - t.at_ns[5], t.at_ns[5] - t.at_ns[4] + 400 * NS_PER_MS, "three quick turns");
	cr_expect(t.pace.slow, "and slow again");
}

Test(pace, hurries_as_long_as_it_has_to)
{
	struct turns t = {.hurry_to = 5, .busy_at = 6};

	run(&t);
	cr_expect_lt(t.at_ns[5] - t.at_ns[0], 400 * NS_PER_MS, "less than five quick turns");
	cr_expect_geq(t.at_ns[7] - t.at_ns[6], 80 * NS_PER_MS, "quick again");
	cr_expect_not(t.pace.brisk);
}
