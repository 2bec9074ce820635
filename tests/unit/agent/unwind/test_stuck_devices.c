// SPDX-License-Identifier: Apache-2.0
/* Which jobs are put off, and when one of them is tried. */
#include <criterion/criterion.h>

#include "agent/base/cleanup.h"
#include "agent/unwind/stuck_devices.h"

#define DEV 77u
#define START (100 * NS_PER_SEC)
#define _cleanup_devices_ _cleanup_(stuck_devices_fini)

Test(stuck_devices, as_long_as_jobs_are_stuck)
{
	_cleanup_devices_ struct stuck_devices s = {0};

	cr_expect_not(stuck_devices_has(&s, DEV));
	for (dev_t dev = DEV; dev < DEV + 100; dev++)
		stuck_devices_add(&s, dev, START);
	stuck_devices_add(&s, DEV, START);
	stuck_devices_remove(&s, DEV);
	stuck_devices_remove(&s, DEV + 50);
	cr_expect(stuck_devices_has(&s, DEV));
	cr_expect_not(stuck_devices_has(&s, DEV + 50));
	cr_expect(stuck_devices_has(&s, DEV + 99));
	stuck_devices_remove(&s, DEV);
	cr_expect_not(stuck_devices_has(&s, DEV));
	stuck_devices_remove(&s, DEV); /* one that found no memory */
}

/* One job at a time is tried, ever more rarely while they are stuck. */
Test(stuck_devices, tried_without_success)
{
	_cleanup_devices_ struct stuck_devices s = {0};
	uint64_t now = START, wait = STUCK_RETRY_NS;

	cr_expect_not(stuck_devices_may_try(&s, DEV, now), "there is no need to try");
	stuck_devices_add(&s, DEV, now);
	for (unsigned n = 1; n < STUCK_MAX; n++, wait *= 2) {
		cr_expect_not(stuck_devices_may_try(&s, DEV, now + wait - 1));
		now += wait;
		cr_expect(stuck_devices_may_try(&s, DEV, now));
		stuck_devices_try_begin(&s, DEV);
		cr_expect_not(stuck_devices_may_try(&s, DEV, now + 3600 * NS_PER_SEC), "one at a time");
		stuck_devices_try_end(&s, DEV, true);
		stuck_devices_add(&s, DEV, now);
	}
	cr_expect_not(stuck_devices_may_try(&s, DEV, now + 3600 * NS_PER_SEC), "enough threads are blocked");
	stuck_devices_remove(&s, DEV);
	cr_expect(stuck_devices_may_try(&s, DEV, now + 3600 * NS_PER_SEC));
}

/* One job never returns, although others do. */
Test(stuck_devices, tried_with_success)
{
	_cleanup_devices_ struct stuck_devices s = {0};

	stuck_devices_add(&s, DEV, START);
	for (int i = 0; i < 10; i++) {
		cr_expect(stuck_devices_may_try(&s, DEV, START + STUCK_RETRY_NS));
		stuck_devices_try_begin(&s, DEV);
		stuck_devices_try_end(&s, DEV, false);
	}
	cr_expect(stuck_devices_has(&s, DEV));
}
