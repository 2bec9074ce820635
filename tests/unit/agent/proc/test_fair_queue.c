// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>

#include "agent/base/clock.h"
#include "agent/proc/fair_queue.h"

#define N 12u
#define OF_A_TENANT 4u

struct scene {
	struct fair_queue q;
	struct fair_wait waits[N];
	uint64_t now_ns;
};

static void add(struct scene *s, unsigned i, uint64_t tenant, bool urgent)
{
	fair_queue_add(&s->q, &s->waits[i], tenant, urgent);
}

/* Gives the next one to the workers. Its number, or -1. */
static int take(struct scene *s)
{
	struct fair_wait *w = fair_queue_next(&s->q, s->now_ns);

	if (!w)
		return -1;
	fair_queue_remove(&s->q, w);
	fair_queue_begin(&s->q, w, s->now_ns);
	return (int)(w - s->waits);
}

static void end(struct scene *s, int i)
{
	fair_queue_end(&s->q, &s->waits[i], s->now_ns);
}

static struct scene scene_make(void)
{
	struct scene s = {.now_ns = 1000 * NS_PER_SEC};

	fair_queue_init(&s.q, OF_A_TENANT);
	return s;
}

Test(fair_queue, urgent_ones_first_and_one_of_the_others)
{
	struct scene s = scene_make();

	add(&s, 0, 1, false);
	add(&s, 1, 1, false);
	add(&s, 2, 1, true);
	cr_expect_eq(s.q.n_waiting, 3);
	cr_expect_eq(take(&s), 2);
	cr_expect_eq(take(&s), 0);
	cr_expect_eq(take(&s), -1, "one at a time");
	end(&s, 0);
	cr_expect_eq(take(&s), 1);
	end(&s, 1);
	end(&s, 2);
	cr_expect_eq(s.q.n_waiting, 0);
	fair_queue_fini(&s.q);
}

Test(fair_queue, whose_builds_took_least_is_next)
{
	struct scene s = scene_make();

	for (unsigned i = 0; i < 6; i++)
		add(&s, i, 1, true);
	for (int i = 0; i < (int)OF_A_TENANT; i++)
		cr_expect_eq(take(&s), i);
	cr_expect_eq(take(&s), -1, "it has its share of the workers");
	add(&s, 6, 2, true);
	add(&s, 7, 2, true);
	cr_expect_eq(take(&s), 6);
	s.now_ns += 5 * NS_PER_SEC;
	end(&s, 0);
	end(&s, 1);
	s.now_ns += NS_PER_SEC / 1000;
	end(&s, 6);
	add(&s, 8, 3, true);
	cr_expect_eq(take(&s), 8, "nothing was built for it yet");
	cr_expect_geq(take(&s), 4);
	fair_queue_fini(&s.q);
}

Test(fair_queue, what_was_long_ago_does_not_count)
{
	struct scene s = scene_make();

	add(&s, 0, 1, true);
	cr_expect_eq(take(&s), 0);
	s.now_ns += 5 * NS_PER_SEC;
	end(&s, 0);
	add(&s, 1, 2, true);
	cr_expect_eq(take(&s), 1);
	s.now_ns += NS_PER_SEC;
	end(&s, 1);
	add(&s, 2, 1, true);
	add(&s, 3, 2, true);
	cr_expect_eq(take(&s), 3, "one second is less than five");
	end(&s, 3);
	s.now_ns += 1000 * NS_PER_SEC;
	fair_queue_remove(&s.q, &s.waits[2]);
	cr_expect_null(fair_queue_next(&s.q, s.now_ns));
	cr_expect_eq(s.q.tenants.len, 0, "forgotten");
	fair_queue_fini(&s.q);
}

static uint64_t held_until(uint64_t tenant, const void *data)
{
	return tenant == 1 ? *(const uint64_t *)data : 0;
}

Test(fair_queue, a_tenant_that_is_held_back_waits)
{
	struct scene s = scene_make();
	const uint64_t until_ns = s.now_ns + NS_PER_SEC;

	fair_queue_on_held(&s.q, held_until, &until_ns);
	add(&s, 0, 1, true);
	add(&s, 1, 2, true);
	add(&s, 2, 1, false);
	add(&s, 3, 2, false);
	cr_expect_eq(take(&s), 1);
	cr_expect_eq(take(&s), 3, "of the ordinary ones, too");
	end(&s, 3);
	cr_expect_eq(take(&s), -1);
	s.now_ns = until_ns;
	cr_expect_eq(take(&s), 0);
	cr_expect_eq(take(&s), 2);
	for (int i = 0; i < 3; i++)
		end(&s, i);
	fair_queue_fini(&s.q);
}
