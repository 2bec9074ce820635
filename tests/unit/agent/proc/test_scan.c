// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/agent/proc/tree.h"

#include <pthread.h>

#include "agent/proc/scan.h"

struct seen {
	uint32_t ids[64];
	size_t n, stop_after;
};

static int collect(uint32_t id, void *data)
{
	struct seen *s = data;

	if (s->n < ARRAY_SIZE(s->ids))
		s->ids[s->n] = id;
	s->n++;
	return s->n == s->stop_after ? -EXFULL : 0;
}

Test(scan, takes_numeric_directories_in_ascending_order)
{
	static const char *const dirs[] = {"100", "9",	"4294967295", "10",   "012",
					   "0",	  "1a", "4294967296", "acpi", "-1"};
	static const uint32_t expected[] = {9, 10, 100, 4294967295u};
	struct seen s = {0};
	struct tree t;

	tree_make(&t);
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		tree_dir(&t, dirs[i]);
	tree_text(&t, "77", "a file");
	tree_link(&t, "78", "9");
	cr_assert_eq(proc_scan(t.fd, collect, &s), 0);
	cr_assert_eq(s.n, ARRAY_SIZE(expected));
	cr_assert_arr_eq(s.ids, expected, sizeof expected);
	tree_remove(&t);
}

Test(scan, stops_with_the_value_of_the_callback)
{
	struct seen s = {.stop_after = 2};
	struct tree t;

	tree_make(&t);
	tree_dir(&t, "1/task/1");
	tree_dir(&t, "1/task/5");
	tree_dir(&t, "1/task/6");
	tree_dir(&t, "2");
	tree_dir(&t, "3");
	cr_assert_eq(proc_scan(t.fd, collect, &s), -EXFULL);
	cr_assert_eq(s.n, 2);
	cr_assert_eq(s.ids[1], 2);
	s = (struct seen){.stop_after = 2};
	cr_assert_eq(proc_scan_threads(t.fd, 1, collect, &s), -EXFULL);
	cr_assert_eq(s.n, 2);
	tree_remove(&t);
}

Test(scan, an_ended_process_or_a_missing_folder)
{
	struct seen s = {0};
	struct tree t;

	tree_make(&t);
	cr_assert_eq(proc_scan(t.fd, collect, &s), 0);
	tree_dir(&t, "1");
	cr_assert_eq(proc_scan_threads(t.fd, 1, collect, &s), -ENOENT);
	cr_assert_eq(proc_scan_threads(t.fd, 2, collect, &s), -ESRCH);
	cr_assert_eq(proc_scan(-1, collect, &s), -EBADF);
	cr_assert_eq(s.n, 0);
	tree_remove(&t);
}

struct order {
	uint32_t last, self, child;
	bool ascending, self_seen, child_seen;
};

static int watch_order(uint32_t id, void *data)
{
	struct order *o = data;

	o->ascending &= id > o->last;
	o->last = id;
	o->self_seen |= id == o->self;
	o->child_seen |= id == o->child;
	return 0;
}

Test(scan, sees_real_processes)
{
	_cleanup_close_ int proc_fd = proc_root();
	struct child c = child_start(NULL, NULL);
	struct order o = {.self = (uint32_t)getpid(), .child = (uint32_t)c.pid, .ascending = true};

	cr_assert_eq(proc_scan(proc_fd, watch_order, &o), 0);
	cr_assert(o.ascending);
	cr_assert(o.self_seen);
	cr_assert(o.child_seen);
	child_stop(&c);
	o.child_seen = false;
	o.last = 0;
	cr_assert_eq(proc_scan(proc_fd, watch_order, &o), 0);
	cr_assert_not(o.child_seen);
	cr_assert_eq(proc_scan_threads(proc_fd, (uint32_t)c.pid, watch_order, &o), -ESRCH);
}

static void *wait_at(void *barrier)
{
	pthread_barrier_wait(barrier);
	pthread_barrier_wait(barrier);
	return NULL;
}

Test(scan, sees_real_threads)
{
	_cleanup_close_ int proc_fd = proc_root();
	pthread_barrier_t barrier;
	pthread_t threads[3];
	struct seen s = {0};
	bool main_seen = false;

	pthread_barrier_init(&barrier, NULL, 4);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, wait_at, &barrier), 0);
	pthread_barrier_wait(&barrier);
	cr_assert_eq(proc_scan_threads(proc_fd, (uint32_t)getpid(), collect, &s), 0);
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	for (size_t i = 0; i < s.n; i++)
		main_seen |= s.ids[i] == (uint32_t)getpid();
	cr_assert(main_seen);
	cr_assert_geq(s.n, 4); /* a sanitizer or the test framework may have threads of its own */
	pthread_barrier_destroy(&barrier);
}

/* Ends the process inside the callback: an error or the end follows, never a crash. */
static int kill_and_reap(uint32_t tid, void *data)
{
	(void)tid;
	child_stop(data);
	return 0;
}

Test(scan, survives_a_process_that_ends_while_its_threads_are_read)
{
	_cleanup_close_ int proc_fd = proc_root();
	struct child c = child_start(NULL, NULL);
	int r = proc_scan_threads(proc_fd, (uint32_t)c.pid, kill_and_reap, &c);

	cr_assert(r == 0 || r == -ESRCH, "%d", r);
}
