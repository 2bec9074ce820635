// SPDX-License-Identifier: Apache-2.0
#include "agent/telemetry/stall.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <unistd.h>

#include "agent/base/clock.h"

Test(stall, parses_the_first_line)
{
	uint64_t tick = NS_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK), ns = 1;

	cr_expect_eq(stall_parse_busy("cpu  1 2 4 8 16 32 64 0 0 0\ncpu0 1 2", &ns), 0);
	cr_expect_eq(ns, (1 + 2 + 4 + 32 + 64) * tick, "idle and iowait are no work");
	cr_expect_eq(stall_parse_busy("cpu  1 2 4", &ns), -EBADMSG);
	cr_expect_eq(stall_parse_busy("intr 1 2 3 4 5 6 7", &ns), -EBADMSG);
	cr_expect_eq(stall_parse_busy("", &ns), -EBADMSG);
	cr_expect_eq(stall_read_busy(&ns), 0);
}

Test(stall, stalls_only_while_the_cpus_work)
{
	struct stall w = {0};
	uint64_t busy = 5 * NS_PER_SEC;

	for (int i = 0; i < 10; i++) {
		stall_look(&w, 100, busy, 97);
		cr_expect_not(w.stalled, "nobody works: %d", i);
	}
	for (unsigned i = 0; i < STALL_PERIODS; i++) {
		cr_expect_not(w.stalled);
		stall_look(&w, 101 + i, busy += NS_PER_SEC, 97);
	}
	for (unsigned i = 0; i < STALL_PERIODS; i++) {
		cr_expect_not(w.stalled, "%u", i);
		stall_look(&w, 103, busy += NS_PER_SEC, 97);
	}
	cr_expect(w.stalled);
	stall_look(&w, 104, busy += NS_PER_SEC, 97);
	cr_expect_not(w.stalled, "one sample came");
	for (unsigned i = 0; i < STALL_PERIODS; i++)
		stall_look(&w, 104, busy += NS_PER_SEC / 100, 97);
	cr_expect_not(w.stalled, "too little work for samples");
}
