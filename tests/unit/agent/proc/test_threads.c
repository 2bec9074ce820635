// SPDX-License-Identifier: Apache-2.0
/* Tests names of threads, by time. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/proc/threads.h"

DEFINE_CLEANUP(struct proc_threads *, proc_threads_free)
#define _cleanup_threads_ _cleanup_(proc_threads_free_p)

static struct proc_threads *threads_new(size_t max)
{
	struct proc_threads *t = NULL;

	cr_assert_eq(proc_threads_new(&t, max), 0);
	return t;
}

static void expect_name(const struct proc_threads *t, uint32_t pid, uint32_t tid, uint64_t time_ns,
			const char *want)
{
	char name[PROC_TASK_COMM_LEN] = "?";

	cr_expect_eq(proc_threads_at(t, pid, tid, time_ns, name), want != NULL, "%u/%u at %lu", pid, tid,
		     (unsigned long)time_ns);
	cr_expect_str_eq(name, want ?: "?", "%u/%u at %lu: %s", pid, tid, (unsigned long)time_ns, name);
}

Test(threads, by_time)
{
	_cleanup_threads_ struct proc_threads *t = threads_new(10);

	proc_threads_set(t, 1, 5, 100, "server");
	proc_threads_set(t, 1, 5, 200, "worker");
	proc_threads_set(t, 1, 5, 300, "a name that is longer than names are");
	expect_name(t, 1, 5, 99, NULL);
	expect_name(t, 1, 5, 100, "server");
	expect_name(t, 1, 5, 199, "server");
	expect_name(t, 1, 5, 200, "worker");
	expect_name(t, 1, 5, 300, "a name that is ");
	expect_name(t, 2, 5, 250, NULL);
	expect_name(t, 1, 6, 250, NULL);
	cr_expect(proc_threads_known(t, 1, 5));
	cr_expect_not(proc_threads_known(t, 2, 5));
	cr_expect_eq(proc_threads_len(t), 1);
	proc_threads_free(NULL);
}

/* One tid, threads of two processes. */
Test(threads, reuse)
{
	_cleanup_threads_ struct proc_threads *t = threads_new(10);

	proc_threads_set(t, 1, 5, 100, "first");
	proc_threads_end(t, 5, 200);
	proc_threads_end(t, 5, 250);
	expect_name(t, 1, 5, 220, "first"); /* sampled while it exits */
	proc_threads_set(t, 2, 5, 300, "second");
	expect_name(t, 1, 5, 150, "first");
	expect_name(t, 2, 5, 150, NULL);
	expect_name(t, 2, 5, 300, "second");
	expect_name(t, 1, 5, 300, NULL);
	cr_expect(proc_threads_known(t, 1, 5));
	cr_expect(proc_threads_known(t, 2, 5));
	proc_threads_end(t, 5, 400);
	proc_threads_set(t, 2, 5, 500, "second"); /* a new thread with the same name */
	proc_threads_forget(t, 450);
	expect_name(t, 2, 5, 500, "second");
	cr_expect_not(proc_threads_known(t, 1, 5));
}

Test(threads, forget)
{
	_cleanup_threads_ struct proc_threads *t = threads_new(10);

	proc_threads_set(t, 1, 5, 100, "a");
	proc_threads_set(t, 1, 5, 200, "b");
	proc_threads_set(t, 1, 5, 300, "c");
	proc_threads_set(t, 1, 6, 100, "d");
	proc_threads_end(t, 6, 250);
	proc_threads_forget(t, 150);
	expect_name(t, 1, 5, 150, "a");
	expect_name(t, 1, 6, 150, "d");
	proc_threads_forget(t, 251);
	expect_name(t, 1, 5, 150, NULL);
	expect_name(t, 1, 5, 251, "b");
	expect_name(t, 1, 6, 150, NULL);
	cr_expect_eq(proc_threads_len(t), 1);
}

Test(threads, end_all)
{
	_cleanup_threads_ struct proc_threads *t = threads_new(10);

	proc_threads_set(t, 1, 5, 100, "a");
	proc_threads_set(t, 1, 6, 100, "b");
	proc_threads_set(t, 2, 7, 100, "c");
	proc_threads_end_all(t, 1, 200);
	proc_threads_forget(t, 300);
	cr_expect_eq(proc_threads_len(t), 1);
	expect_name(t, 2, 7, 300, "c");
}

Test(threads, maximum)
{
	_cleanup_threads_ struct proc_threads *t = threads_new(3);
	char name[PROC_TASK_COMM_LEN];

	for (uint32_t tid = 1; tid <= 5; tid++)
		proc_threads_set(t, 1, tid, 10, "begun");
	cr_expect_eq(proc_threads_len(t), 3);
	cr_expect_eq(proc_threads_full(t), 2);
	expect_name(t, 1, 5, 10, NULL);
	for (unsigned i = 1; i <= 20; i++) { /* there is room for as many former names as tids */
		snprintf(name, sizeof name, "%u", i);
		proc_threads_set(t, 1, 1, 10 + i, name);
	}
	expect_name(t, 1, 1, 30, "20");
	expect_name(t, 1, 1, 29, "19");
	expect_name(t, 1, 1, 27, "17");
	expect_name(t, 1, 1, 26, NULL);
	proc_threads_set(t, 1, 2, 50, "renamed");
	expect_name(t, 1, 2, 50, "renamed");
	expect_name(t, 1, 2, 49, NULL);
}
