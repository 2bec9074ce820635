// SPDX-License-Identifier: Apache-2.0
/* Readings of a made-up /proc/self/task, and the decision for made-up minutes. */
#include "agent/telemetry/cpu_wait.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"

#define MAIN 100
#define START (1000 * NS_PER_SEC)

static char task[64];
static struct cpu_wait w;

static void put(int tid, const char *schedstat)
{
	_cleanup_fclose_ FILE *f = NULL;
	char path[128];

	snprintf(path, sizeof path, "%s/%d", task, tid);
	cr_assert(mkdir(path, 0700) == 0 || errno == EEXIST);
	snprintf(path, sizeof path, "%s/%d/schedstat", task, tid);
	f = fopen(path, "w");
	cr_assert(f);
	fputs(schedstat, f);
}

static void end(int tid)
{
	char path[128];

	snprintf(path, sizeof path, "%s/%d/schedstat", task, tid);
	cr_assert_eq(unlink(path), 0);
	snprintf(path, sizeof path, "%s/%d", task, tid);
	cr_assert_eq(rmdir(path), 0);
}

static void make(void)
{
	strcpy(task, "/tmp/proflet-task-XXXXXX");
	cr_assert(mkdtemp(task));
	cpu_wait_init(&w, MAIN, START);
}

static void clean(void)
{
	char command[128];

	snprintf(command, sizeof command, "rm -r %s", task);
	cr_assert_eq(system(command), 0);
	cpu_wait_fini(&w);
}

static void expect(uint64_t main_run, uint64_t main_wait, uint64_t others_run, uint64_t others_wait)
{
	cr_assert_eq(cpu_wait_read(&w, task), 0);
	cr_expect_eq(w.times.main.run_ns, main_run);
	cr_expect_eq(w.times.main.wait_ns, main_wait);
	cr_expect_eq(w.times.others.run_ns, others_run);
	cr_expect_eq(w.times.others.wait_ns, others_wait);
}

Test(cpu_wait, sums_threads, .init = make, .fini = clean)
{
	put(MAIN, "1000 200 3\n");
	put(101, "10 20 3\n");
	put(102, "1 2 3\n");
	expect(1000, 200, 11, 22);
	cr_expect(w.times.known);
	expect(1000, 200, 11, 22);
	put(MAIN, "1500 900 9\n");
	put(102, "4 7 5\n");
	expect(1500, 900, 14, 27);
}

Test(cpu_wait, what_a_thread_did_remains_when_it_ends, .init = make, .fini = clean)
{
	put(MAIN, "1000 200 3\n");
	put(101, "10 20 3\n");
	expect(1000, 200, 10, 20);
	end(101);
	expect(1000, 200, 10, 20);
	cr_expect_eq(w.n, 1u);
	put(101, "30 40 3\n"); /* another thread: nothing of it was known */
	expect(1000, 200, 40, 60);
}

Test(cpu_wait, a_thread_number_that_is_used_again, .init = make, .fini = clean)
{
	put(101, "1000 200 3\n");
	expect(0, 0, 1000, 200);
	put(101, "50 900 1\n"); /* it cannot have run for less than before */
	expect(0, 0, 1050, 1100);
}

Test(cpu_wait, a_thread_that_cannot_be_read_is_not_counted_twice, .init = make, .fini = clean)
{
	put(101, "1000 200 3\n");
	expect(0, 0, 1000, 200);
	put(101, "garbage\n");
	expect(0, 0, 1000, 200);
	put(101, "1001 202 3\n");
	expect(0, 0, 1001, 202);
}

/* More threads than the array has room for at first. */
Test(cpu_wait, many_threads, .init = make, .fini = clean)
{
	for (int tid = 101; tid <= 140; tid++)
		put(tid, "3 2 1\n");
	expect(0, 0, 120, 80);
	cr_expect_eq(w.n, 40u);
}

Test(cpu_wait, unknown_where_the_kernel_does_not_count, .init = make, .fini = clean)
{
	char nowhere[80];

	cr_expect_not(w.times.known);
	put(MAIN, "0 0 0\n");
	expect(0, 0, 0, 0);
	cr_expect_not(w.times.known);
	put(MAIN, "7 0 1\n");
	expect(7, 0, 0, 0);
	cr_expect(w.times.known);
	snprintf(nowhere, sizeof nowhere, "%s/nowhere", task);
	cr_expect_eq(cpu_wait_read(&w, nowhere), -ENOENT);
	cr_expect_eq(w.times.main.run_ns, 7u);
}

/* The kernel that runs the tests: schedstat has the fields that we take them for. */
Test(cpu_wait, of_this_process)
{
	struct cpu_wait own;
	uint64_t cpu_ns;

	cpu_wait_init(&own, getpid(), START);
	cpu_wait_refresh(&own);
	cpu_ns = clock_thread_cpu_ns();
	if (access("/proc/self/schedstat", R_OK) == 0 && own.times.known)
		cr_expect_leq(own.times.main.run_ns, cpu_ns);
	cr_expect_eq(own.times.known, own.times.main.run_ns > 0);
	cpu_wait_fini(&own);
}

/* So many seconds pass, in which the agent's threads ran and waited for so many. */
static enum cpu_wait_change pass(struct cpu_wait *of, uint64_t *now_ns, double seconds, double run,
				 double wait)
{
	*now_ns += (uint64_t)(seconds * (double)NS_PER_SEC);
	of->times.main.run_ns += (uint64_t)(run / 2 * (double)NS_PER_SEC);
	of->times.others.run_ns += (uint64_t)(run / 2 * (double)NS_PER_SEC);
	of->times.main.wait_ns += (uint64_t)(wait / 4 * (double)NS_PER_SEC);
	of->times.others.wait_ns += (uint64_t)(wait * 3 / 4 * (double)NS_PER_SEC);
	return cpu_wait_look(of, *now_ns);
}

Test(cpu_starved, by_run_and_by_wall_time)
{
	static const struct {
		double run, wait;
		bool starved;
		const char *why;
	} rows[] = {
		{0.3, 0.01, false, "a quiet node"},
		{0.3, 12, false, "waits 40 times as long as it runs, but for a fifth of the minute only"},
		{0.3, 16, true, "beside programs that take all CPUs"},
		{20, 70, false, "four workers build tables with half a CPU: late, but they go on"},
		{10, 200, true, "four workers that wait nearly all the time"},
		{4, 15.9, false, "not quite four times"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint64_t now = START;
		struct cpu_wait x;

		cpu_wait_init(&x, MAIN, now);
		cr_expect_eq(pass(&x, &now, 60, rows[i].run, rows[i].wait),
			     rows[i].starved ? CPU_WAIT_BEGAN : CPU_WAIT_UNCHANGED, "%s", rows[i].why);
		cr_expect_eq(x.times.starved, rows[i].starved, "%s", rows[i].why);
	}
}

Test(cpu_starved, over_a_minute_not_at_each_look)
{
	struct cpu_wait x;
	uint64_t now = START;

	cpu_wait_init(&x, MAIN, now);
	for (int i = 0; i < 5; i++)
		cr_expect_eq(pass(&x, &now, 10, 0.1, 9), CPU_WAIT_UNCHANGED, "look %d", i);
	cr_expect_eq(pass(&x, &now, 10, 0.1, 9), CPU_WAIT_BEGAN);
	cr_expect_eq(x.length_ns, 60 * NS_PER_SEC);
	cr_expect_float_eq((double)x.in_period.run_ns / NS_PER_SEC, 0.6, 1e-6);
	cr_expect_float_eq((double)x.in_period.wait_ns / NS_PER_SEC, 54, 1e-6);
	cr_expect_eq(pass(&x, &now, 90, 0.1, 0.1), CPU_WAIT_ENDED, "a late look makes a longer period");
	cr_expect_eq(x.length_ns, 90 * NS_PER_SEC);
}

Test(cpu_starved, reported_once_and_its_end)
{
	struct cpu_wait x;
	uint64_t now = START;

	cpu_wait_init(&x, MAIN, now);
	cr_expect_eq(pass(&x, &now, 60, 1, 50), CPU_WAIT_BEGAN);
	for (int i = 0; i < 60; i++)
		cr_expect_eq(pass(&x, &now, 60, 1, 50), CPU_WAIT_UNCHANGED, "said already");
	cr_expect_eq(pass(&x, &now, 60, 1, 10), CPU_WAIT_UNCHANGED, "little better is not the end");
	cr_expect(x.times.starved);
	cr_expect_eq(pass(&x, &now, 60, 1, 5), CPU_WAIT_ENDED);
	cr_expect_not(x.times.starved);
	cr_expect_eq(pass(&x, &now, 60, 1, 5), CPU_WAIT_UNCHANGED);
}

/* Starved every second minute: one warning in ten minutes, and an end only for what was reported. */
Test(cpu_starved, limits_the_rate_of_warnings)
{
	struct cpu_wait x;
	uint64_t now = START;
	unsigned began = 0, ended = 0;

	cpu_wait_init(&x, MAIN, now);
	for (int i = 0; i < 60; i++) {
		enum cpu_wait_change change = pass(&x, &now, 60, 1, i % 2 ? 0 : 50);

		began += change == CPU_WAIT_BEGAN;
		ended += change == CPU_WAIT_ENDED;
		cr_expect_eq(x.times.starved, i % 2 == 0, "the state itself is not delayed");
	}
	cr_expect_eq(began, 6u);
	cr_expect_eq(ended, began);
}
