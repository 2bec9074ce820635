// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>

#include "agent/base/clock.h"
#include "cgroup/pace.h"

#define S NS_PER_SEC

Test(pace, calms_down)
{
	static const uint64_t waits[] = {5, 10, 20, 40, 60, 60};
	struct pace p = {0};
	uint64_t now = 100 * S;

	cr_expect_leq(p.due_ns, now, "the first at once");
	for (unsigned i = 0; i < sizeof waits / sizeof *waits; i++) {
		pace_answered(&p, now, true, 1);
		cr_expect_eq(p.due_ns - now, waits[i] * S, "%u", i);
		now = p.due_ns;
	}
	pace_answered(&p, now, true, 0);
	cr_expect_eq(p.due_ns - now, 30 * S, "nodes come apart");
}

Test(pace, an_unknown_container)
{
	struct pace p = {0};
	uint64_t now = 1000 * S;

	for (int i = 0; i < 6; i++, now = p.due_ns)
		pace_answered(&p, now, true, 1);
	now = p.asked_ns + 30 * S;
	pace_unknown(&p, now);
	cr_expect_eq(p.due_ns, now, "the last answer is old: at once");
	pace_answered(&p, now, true, 1);
	cr_expect_eq(p.due_ns, now + 5 * S, "it may not have been in the list yet");
	pace_unknown(&p, now + S);
	cr_expect_eq(p.due_ns, now + 5 * S, "no sooner");
	now += 5 * S;
	pace_answered(&p, now, true, 1);
	pace_answered(&p, now + 5 * S, true, 1);
	cr_expect_eq(p.due_ns, now + 15 * S);
	pace_unknown(&p, now + 6 * S);
	cr_expect_eq(p.due_ns, now + 10 * S);
}

Test(pace, failures)
{
	struct pace p = {0};
	uint64_t now = 100 * S, wait = 2 * S;

	for (int i = 0; i < 12; i++) {
		pace_answered(&p, now, false, 1);
		cr_expect_eq(p.due_ns - now, wait > 300 * S ? 300 * S : wait, "%d", i);
		pace_unknown(&p, now + 1);
		cr_expect_eq(p.due_ns - now, wait > 300 * S ? 300 * S : wait,
			     "nothing makes it more frequent");
		now = p.due_ns;
		wait *= 2;
	}
	pace_answered(&p, now, false, 0);
	cr_expect_eq(p.due_ns - now, 150 * S);
	pace_answered(&p, now, true, 0);
	cr_expect_eq(p.due_ns - now, 5 * S);
	cr_expect_eq(p.failures, 0);
	pace_answered(&p, now, false, 1);
	cr_expect_eq(p.due_ns - now, 2 * S, "from the beginning");
}
