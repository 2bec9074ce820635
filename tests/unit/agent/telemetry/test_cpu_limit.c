// SPDX-License-Identifier: Apache-2.0
/* The sampling rate that keeps cpu.max, against an agent whose cost is a line: so much a sample, so much
 * else. */
#include "agent/telemetry/cpu_limit.h"

#include <criterion/criterion.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"

struct model {
	struct cpu_limit limit;
	struct cpu_use used;
	uint64_t now_ns;
	uint32_t hz;
	double a_hertz, other, wasted; /* shares of a CPU: of one sample a second and CPU, of all else */
};

static struct model model_new(double max, uint32_t hz)
{
	return (struct model){.limit = {.max = max, .wanted_hz = hz}, .now_ns = 77 * NS_PER_SEC, .hz = hz};
}

/* A window of so many seconds passes; what it cost is looked at. */
static uint32_t window(struct model *m, double seconds)
{
	double ns = seconds * (double)NS_PER_SEC, samples = m->a_hertz * m->hz;

	m->now_ns += (uint64_t)ns;
	m->used.samples_ns += (uint64_t)(samples * ns);
	m->used.wasted_ns += (uint64_t)(m->wasted * ns);
	m->used.all_ns += (uint64_t)((samples + m->other + m->wasted) * ns);
	m->hz = cpu_limit_look(&m->limit, m->now_ns, m->used, m->hz);
	return m->hz;
}

static uint32_t windows(struct model *m, int n)
{
	for (int i = 0; i < n; i++)
		window(m, 10);
	return m->hz;
}

Test(cpu_limit, stays)
{
	struct model m = model_new(0.05, 97);

	m.a_hertz = 0.04 / 97;
	cr_expect_eq(windows(&m, 50), 97);
	cr_expect_float_eq(m.limit.samples, 0.04, 1e-6);
	cr_expect_float_eq(m.limit.other, 0, 1e-6);
}

Test(cpu_limit, first_look_only_begins)
{
	struct model m = model_new(0.05, 97);

	m.a_hertz = 1;
	m.used = (struct cpu_use){.samples_ns = 60 * NS_PER_SEC, .all_ns = 60 * NS_PER_SEC};
	cr_expect_eq(window(&m, 30), 97, "what it cost before counts for nothing");
	cr_expect_eq(window(&m, 5), 97, "too soon");
	cr_expect_eq(window(&m, 5), 1);
}

Test(cpu_limit, lowers_to_what_fits)
{
	struct model m = model_new(0.05, 1000);

	m.a_hertz = 0.0001; /* 10 % of a CPU */
	m.other = 0.01;
	windows(&m, 2);
	cr_expect_eq(m.hz, 360, "nine tenths of the 4 %% that are left");
	cr_expect_eq(windows(&m, 50), 360, "and stays there");
}

/* Files that occupy their parser processes cost no sample. */
Test(cpu_limit, wasted)
{
	struct model m = model_new(0.05, 97);

	m.a_hertz = 0.04 / 97;
	m.wasted = 0.9;
	cr_expect_eq(windows(&m, 50), 97);
	cr_expect_float_eq(m.limit.wasted, 0.9, 1e-6);
	cr_expect_float_eq(m.limit.other, 0, 1e-6);
	cr_expect_geq(m.limit.n_beyond, 49, "it is logged");
}

/* The load ends: each check doubles the rate, up to the configured one. */
Test(cpu_limit, rises_again)
{
	struct model m = model_new(0.05, 1000);

	m.a_hertz = 0.001;
	cr_expect_eq(windows(&m, 20), 45);
	m.a_hertz = 0;
	cr_expect_eq(windows(&m, 1), 90);
	cr_expect_eq(windows(&m, 1), 180);
	cr_expect_eq(windows(&m, 2), 720);
	cr_expect_eq(windows(&m, 1), 1000);
	cr_expect_eq(windows(&m, 9), 1000);
}

/* What a lower rate does not save does not lower it: samples keep half. */
Test(cpu_limit, samples_keep_half)
{
	struct model m = model_new(0.05, 97);

	m.a_hertz = 0.02 / 97;
	m.other = 0.5;
	cr_expect_eq(windows(&m, 30), 97);
	cr_expect_eq(m.limit.n_beyond, 29);
	m.a_hertz = 0.05 / 97;
	cr_expect_eq(windows(&m, 30), 43, "nine tenths of 2.5 %%");
	m.other = 0;
	cr_expect_eq(windows(&m, 30), 86, "nine tenths of 5 %%");
	cr_expect_eq(m.limit.n_beyond, 0);
}

Test(cpu_limit, at_least_one)
{
	struct model m = model_new(0.001, 997);

	m.a_hertz = 1;
	cr_expect_eq(windows(&m, 30), 1);
	m.a_hertz = 0;
	cr_expect_eq(windows(&m, 30), 997);
}

/*
 * A cost that swings around the limit from look to look must not make the rate swing up and down without end.
 */
Test(cpu_limit, noise)
{
	struct model m = model_new(0.05, 97);
	unsigned changes = 0;

	windows(&m, 2);
	for (int i = 0; i < 200; i++) {
		uint32_t before = m.hz;

		m.a_hertz = (i % 2 ? 0.051 : 0.048) / 97;
		changes += windows(&m, 1) != before;
	}
	cr_expect_leq(changes, 2);
	cr_expect_geq(m.hz, 80);
}

/* The three clocks are not read at the same time: samples may seem to take more than all together. */
Test(cpu_limit, clocks_apart)
{
	struct model m = model_new(0.05, 97);

	windows(&m, 1);
	m.used.samples_ns += NS_PER_SEC / 10;
	m.used.all_ns += NS_PER_SEC / 11;
	cr_expect_eq(windows(&m, 1), 97);
	cr_expect_eq(m.limit.other, 0);
	m.used.samples_ns -= NS_PER_MS; /* nor do sums of several threads only grow */
	cr_expect_eq(windows(&m, 1), 97);
	cr_expect_eq(m.limit.samples, 0);
}
