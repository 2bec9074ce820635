// SPDX-License-Identifier: Apache-2.0
/* Criterion runs each test in a process of its own, so what one allows does not reach the others. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "agent/base/priority.h"
#include "agent/base/urgency.h"

static int policy(void)
{
	return sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
}

static void allow(double share)
{
	if (urgency_allow(share) < 0)
		cr_skip_test("no permission for real-time policies");
}

static void use_cpu(uint64_t ns)
{
	uint64_t before = clock_thread_cpu_ns();

	while (clock_thread_cpu_ns() - before < ns)
		;
}

Test(urgency, not_unless_allowed)
{
	struct urgency_stats s;

	urgency_check(URGENCY_EVENTS);
	cr_expect_eq(policy(), SCHED_OTHER);
	urgency_stats(&s);
	cr_expect_eq(s.cpu_ns[URGENCY_EVENTS], 0);
}

Test(urgency, no_share_is_off)
{
	allow(0);
	urgency_check(URGENCY_EVENTS);
	cr_expect_eq(policy(), SCHED_OTHER);
}

Test(urgency, until_the_budget_is_used)
{
	struct urgency_stats s;

	allow(0.1);
	cr_expect_eq(policy(), SCHED_RR);
	urgency_check(URGENCY_EVENTS);
	cr_expect_eq(policy(), SCHED_RR);
	use_cpu(700 * NS_PER_MS);
	usleep(2000);		  /* or the kernel's limit would end it */
	use_cpu(700 * NS_PER_MS); /* together more than there is at the start */
	urgency_check(URGENCY_EVENTS);
	cr_expect_eq(policy(), SCHED_OTHER);
	urgency_stats(&s);
	cr_expect_eq(s.ended, 1);
	cr_expect_geq(s.cpu_ns[URGENCY_EVENTS], 1400 * NS_PER_MS);
	cr_expect_eq(s.cpu_ns[URGENCY_READING], 0);
	use_cpu(100 * NS_PER_MS); /* of an ordinary thread: not counted */
	urgency_check(URGENCY_EVENTS);
	urgency_stats(&s);
	cr_expect_lt(s.cpu_ns[URGENCY_EVENTS], 1450 * NS_PER_MS);
	usleep(5000);			/* more often, checks do nothing */
	urgency_check(URGENCY_READING); /* has a budget of its own */
	cr_expect_eq(policy(), SCHED_RR);
}

Test(urgency, again_when_time_has_brought_some)
{
	allow(0.1);
	urgency_started();
	urgency_check(URGENCY_EVENTS);
	use_cpu(40 * NS_PER_MS); /* of 20 ms, and 7 % of the time, which may be longer */
	urgency_check(URGENCY_EVENTS);
	cr_expect_eq(policy(), SCHED_OTHER);
	for (int i = 0; i < 100 && policy() != SCHED_RR; i++) {
		usleep(100000);
		urgency_check(URGENCY_EVENTS);
	}
	cr_expect_eq(policy(), SCHED_RR);
}

/* Computes until the thread is ordinary, without checking its budget, for 5 s at most. */
static void use_cpu_while_urgent(void)
{
	uint64_t before = clock_thread_cpu_ns();

	while (policy() == SCHED_RR && clock_thread_cpu_ns() - before < 5 * NS_PER_SEC)
		;
}

Test(urgency, not_for_long_without_a_wait)
{
	struct urgency_stats s;

	allow(2); /* there is always some left */
	urgency_started();
	for (unsigned i = 1; i <= 2; i++) {
		urgency_check(URGENCY_EVENTS);
		cr_assert_eq(policy(), SCHED_RR);
		use_cpu_while_urgent();
		cr_expect_eq(policy(), SCHED_OTHER, "the kernel's limit ends it, %u", i);
		usleep(10000);
		urgency_check(URGENCY_EVENTS); /* finds out, and may begin again with the next one */
		usleep(10000);
		urgency_stats(&s);
		cr_expect_eq(s.ended, i);
	}
}

/* The number of the first thing that is wrong; 0: none. */
static int child_is_ordinary(const struct rlimit *rtprio, const struct rlimit *nice)
{
	struct rlimit now;

	if (policy() != SCHED_OTHER)
		return 1;
	urgency_restore_limits();
	if (getrlimit(RLIMIT_RTPRIO, &now) < 0 || now.rlim_cur != rtprio->rlim_cur ||
	    now.rlim_max != rtprio->rlim_max)
		return 2;
	if (getrlimit(RLIMIT_NICE, &now) < 0 || now.rlim_cur != nice->rlim_cur ||
	    now.rlim_max != nice->rlim_max)
		return 3;
	if (getrlimit(RLIMIT_RTTIME, &now) < 0 || now.rlim_cur != RLIM_INFINITY)
		return 4;
	return 0;
}

Test(urgency, children_are_ordinary)
{
	struct rlimit rtprio, nice;
	int status;
	pid_t pid;

	cr_assert_eq(getrlimit(RLIMIT_RTPRIO, &rtprio), 0);
	cr_assert_eq(getrlimit(RLIMIT_NICE, &nice), 0);
	allow(0.1);
	urgency_check(URGENCY_EVENTS);
	cr_assert_eq(policy(), SCHED_RR);
	pid = fork();
	if (pid == 0)
		_exit(child_is_ordinary(&rtprio, &nice));
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "step %d", WEXITSTATUS(status));
}

Test(urgency, ordinary_threads_have_their_priority_back)
{
	int nice;

	if (setpriority(PRIO_PROCESS, 0, -3) < 0)
		cr_skip_test("no permission to raise priorities");
	allow(0.1);
	urgency_check(URGENCY_EVENTS);
	cr_assert_eq(policy(), SCHED_RR);
	urgency_end();
	cr_expect_eq(policy(), SCHED_OTHER);
	nice = getpriority(PRIO_PROCESS, 0);
	cr_expect_eq(nice, -3);
}

struct new_thread {
	sem_t gate;
	int first, begun, ended; /* its policies */
};

static void *new_thread_main(void *data)
{
	struct new_thread *t = data;

	while (sem_wait(&t->gate) < 0)
		;
	t->first = policy();
	urgency_begin();
	t->begun = policy();
	urgency_end();
	t->ended = policy();
	return NULL;
}

Test(urgency, given_to_a_new_thread)
{
	struct new_thread t = {.first = -1};
	pthread_t id;

	sem_init(&t.gate, 0, 0);
	allow(0.1);
	urgency_check(URGENCY_EVENTS);
	cr_assert_eq(pthread_create(&id, NULL, new_thread_main, &t), 0);
	urgency_give(id);
	sem_post(&t.gate);
	cr_assert_eq(pthread_join(id, NULL), 0);
	cr_expect_eq(t.first, SCHED_RR);
	cr_expect_eq(t.begun, SCHED_RR);
	cr_expect_eq(t.ended, SCHED_OTHER);
	cr_expect_eq(policy(), SCHED_RR);
}

Test(urgency, a_thread_that_ends_keeps_it)
{
	allow(0.1);
	urgency_leave();
	cr_expect_eq(policy(), SCHED_RR);
	cr_expect_not(urgency_is_on());
}

/* As after proflet-start. */
Test(urgency, had_from_the_beginning)
{
	struct urgency_stats s;

	if (priority_set_urgent(0, 1) < 0)
		cr_skip_test("no permission for real-time policies");
	use_cpu(30 * NS_PER_MS);
	allow(0.1);
	cr_expect_eq(policy(), SCHED_RR);
	usleep(2000);
	urgency_check(URGENCY_EVENTS);
	urgency_stats(&s);
	cr_expect_geq(s.cpu_ns[URGENCY_EVENTS], 30 * NS_PER_MS, "the time before is counted");
	urgency_end();
	cr_expect_eq(policy(), SCHED_OTHER);
}

Test(urgency, had_from_the_beginning_and_not_allowed)
{
	if (priority_set_urgent(0, 1) < 0)
		cr_skip_test("no permission for real-time policies");
	allow(0);
	cr_expect_eq(policy(), SCHED_OTHER);
}

#define MANY 70 /* threads, more than may be urgent */

struct crowd {
	sem_t begun, gate;
	pid_t first;
	unsigned n_urgent;
};

static void *crowd_main(void *data)
{
	struct crowd *c = data;

	urgency_begin();
	if (urgency_is_on()) {
		__atomic_store_n(&c->first, gettid(), __ATOMIC_RELAXED);
		__atomic_add_fetch(&c->n_urgent, 1, __ATOMIC_RELAXED);
	}
	sem_post(&c->begun);
	while (sem_wait(&c->gate) < 0)
		;
	urgency_leave();
	return NULL;
}

/* Requests that are blocked must not keep the main loop from being urgent. */
Test(urgency, many_blocked_threads)
{
	struct crowd c = {0};
	pthread_t threads[MANY];

	sem_init(&c.begun, 0, 0);
	sem_init(&c.gate, 0, 0);
	allow(0.1);
	urgency_end();
	for (int i = 0; i < MANY; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, crowd_main, &c), 0);
	for (int i = 0; i < MANY; i++)
		while (sem_wait(&c.begun) < 0)
			;
	cr_expect_gt(c.n_urgent, 30);
	cr_expect_lt(c.n_urgent, MANY);
	urgency_check(URGENCY_EVENTS);
	cr_expect_eq(policy(), SCHED_RR);
	urgency_take_back(c.first);
	cr_expect_eq(sched_getscheduler(c.first) & ~SCHED_RESET_ON_FORK, SCHED_OTHER);
	for (int i = 0; i < MANY; i++)
		sem_post(&c.gate);
	for (int i = 0; i < MANY; i++)
		cr_expect_eq(pthread_join(threads[i], NULL), 0);
}
