// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/urgency.h"
#include "agent/base/worker.h"

#define LONG_NS (120 * NS_PER_SEC) /* longer than any test waits unless it fails */

/* A job and what it recorded. Its thread waits at the gate, if it has one. */
struct job {
	struct worker_job base;
	sem_t *entered, *gate;
	atomic_uint *order;
	unsigned place; /* the position in which it ran, from 1 */
	pthread_t ran_on, done_on;
	bool ran, done, cancelled, signals_blocked;
	unsigned n_overdue;
	int policy;	  /* with which it ran */
	int policy_after; /* behind the gate */
	char name[16];
};

static void job_run(struct worker_job *base)
{
	struct job *j = container_of(base, struct job, base);
	sigset_t set;

	j->ran = true;
	j->ran_on = pthread_self();
	pthread_getname_np(j->ran_on, j->name, sizeof j->name);
	j->policy = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
	pthread_sigmask(SIG_SETMASK, NULL, &set);
	j->signals_blocked = sigismember(&set, SIGTERM) && sigismember(&set, SIGINT);
	if (j->entered)
		sem_post(j->entered);
	if (j->gate)
		while (sem_wait(j->gate) < 0)
			;
	j->policy_after = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
	if (j->order)
		j->place = ++*j->order;
}

static void job_done(struct worker_job *base, bool cancelled)
{
	struct job *j = container_of(base, struct job, base);

	j->done = true;
	j->done_on = pthread_self();
	j->cancelled = cancelled;
}

static void job_overdue(struct worker_job *base)
{
	container_of(base, struct job, base)->n_overdue++;
}

#define JOB(...) {.base = {.run = job_run, .done = job_done, .overdue = job_overdue}, __VA_ARGS__}

Test(worker, runs_on_its_threads_and_finishes_on_ours)
{
	struct job jobs[64];
	struct worker *w;

	cr_assert_eq(worker_new(&w, 3, 64, "worker-test"), 0);
	for (size_t i = 0; i < ARRAY_SIZE(jobs); i++) {
		jobs[i] = (struct job)JOB();
		cr_assert_eq(worker_submit(w, &jobs[i].base, i & 1 ? WORKER_LOW : WORKER_HIGH), 0);
	}
	worker_drain(w, LONG_NS);
	cr_assert_eq(worker_pending(w), 0);
	for (size_t i = 0; i < ARRAY_SIZE(jobs); i++) {
		cr_expect(jobs[i].ran && jobs[i].done && !jobs[i].cancelled);
		cr_expect_not(pthread_equal(jobs[i].ran_on, pthread_self()));
		cr_expect(pthread_equal(jobs[i].done_on, pthread_self()));
		cr_expect(jobs[i].signals_blocked);
		cr_expect_str_eq(jobs[i].name, "worker-test");
	}
	worker_free(w);
	worker_free(NULL);
}

Test(worker, descriptor_tells_of_finished_jobs)
{
	struct job j = JOB();
	struct pollfd p = {.events = POLLIN};
	struct worker *w;

	cr_assert_eq(worker_new(&w, 1, 4, "worker-test"), 0);
	p.fd = worker_fd(w);
	cr_assert_eq(poll(&p, 1, 0), 0);
	cr_assert_eq(worker_submit(w, &j.base, WORKER_HIGH), 0);
	cr_assert_eq(poll(&p, 1, LONG_NS / NS_PER_MS), 1);
	cr_assert_not(j.done);
	cr_assert_eq(worker_pending(w), 1);
	worker_collect(w);
	cr_assert(j.done);
	cr_assert_eq(worker_pending(w), 0);
	cr_assert_eq(poll(&p, 1, 0), 0);
	worker_collect(w);
	worker_free(w);
}

Test(worker, high_priority_goes_first_and_order_is_kept)
{
	atomic_uint order = 0;
	sem_t entered, gate;
	struct job blocker = JOB(.entered = &entered, .gate = &gate), jobs[6];
	static const unsigned places[] = {4, 1, 5, 2, 6, 3};
	struct worker *w;

	sem_init(&entered, 0, 0);
	sem_init(&gate, 0, 0);
	cr_assert_eq(worker_new(&w, 1, 16, "worker-test"), 0);
	cr_assert_eq(worker_submit(w, &blocker.base, WORKER_LOW), 0);
	while (sem_wait(&entered) < 0)
		;
	for (size_t i = 0; i < ARRAY_SIZE(jobs); i++) {
		jobs[i] = (struct job)JOB(.order = &order);
		cr_assert_eq(worker_submit(w, &jobs[i].base, i & 1 ? WORKER_HIGH : WORKER_LOW), 0);
	}
	sem_post(&gate);
	worker_drain(w, LONG_NS);
	for (size_t i = 0; i < ARRAY_SIZE(jobs); i++)
		cr_expect_eq(jobs[i].place, places[i], "job %zu ran as %u", i, jobs[i].place);
	worker_free(w);
}

Test(worker, a_full_queue_leaves_the_job_with_the_caller)
{
	sem_t entered, gate;
	struct job jobs[3] = {JOB(.entered = &entered, .gate = &gate), JOB(), JOB()};
	struct worker *w;

	sem_init(&entered, 0, 0);
	sem_init(&gate, 0, 0);
	cr_assert_eq(worker_new(&w, 1, 2, "worker-test"), 0);
	cr_assert_eq(worker_submit(w, &jobs[0].base, WORKER_HIGH), 0);
	cr_assert_eq(worker_submit(w, &jobs[1].base, WORKER_HIGH), 0);
	cr_assert_eq(worker_submit(w, &jobs[2].base, WORKER_HIGH), -ENOSPC);
	sem_post(&gate);
	worker_drain(w, LONG_NS);
	cr_assert(jobs[0].done && jobs[1].done);
	cr_assert_not(jobs[2].ran || jobs[2].done);
	cr_assert_eq(worker_submit(w, &jobs[2].base, WORKER_HIGH), 0);
	worker_drain(w, LONG_NS);
	cr_assert(jobs[2].ran && jobs[2].done);
	worker_free(w);
}

Test(worker, drain_gives_up_in_time)
{
	sem_t gate;
	struct job j = JOB(.gate = &gate);
	struct worker *w;
	uint64_t start;

	sem_init(&gate, 0, 0);
	cr_assert_eq(worker_new(&w, 1, 2, "worker-test"), 0);
	cr_assert_eq(worker_submit(w, &j.base, WORKER_HIGH), 0);
	start = clock_mono_ns();
	worker_drain(w, 5 * NS_PER_MS);
	cr_assert_geq(clock_mono_ns() - start, 5 * NS_PER_MS);
	cr_assert_eq(worker_pending(w), 1);
	cr_assert_not(j.done);
	sem_post(&gate);
	worker_drain(w, LONG_NS);
	cr_assert(j.done);
	worker_free(w);
}

static void *open_gate(void *gate)
{
	sem_post(gate);
	return NULL;
}

Test(worker, stop_waits_for_running_jobs_and_cancels_the_others)
{
	sem_t entered, gate;
	struct job running = JOB(.entered = &entered, .gate = &gate), queued[2] = {JOB(), JOB()};
	pthread_t opener;
	struct worker *w;
	unsigned n_cancelled = 0;

	sem_init(&entered, 0, 0);
	sem_init(&gate, 0, 0);
	cr_assert_eq(worker_new(&w, 1, 8, "worker-test"), 0);
	cr_assert_eq(worker_submit(w, &running.base, WORKER_HIGH), 0);
	while (sem_wait(&entered) < 0)
		;
	cr_assert_eq(worker_submit(w, &queued[0].base, WORKER_HIGH), 0);
	cr_assert_eq(worker_submit(w, &queued[1].base, WORKER_LOW), 0);
	cr_assert_eq(pthread_create(&opener, NULL, open_gate, &gate), 0);
	worker_free(w);
	pthread_join(opener, NULL);
	cr_assert(running.ran && running.done && !running.cancelled);
	/* The gate may have opened before the stop began: then the thread started the next job. */
	for (size_t i = 0; i < ARRAY_SIZE(queued); i++) {
		cr_expect(queued[i].done);
		cr_expect_eq(queued[i].cancelled, !queued[i].ran);
		n_cancelled += queued[i].cancelled;
	}
	cr_assert_leq(n_cancelled, 2);
}

Test(worker, an_awaited_job_comes_back_at_once_and_is_not_collected)
{
	struct job j = JOB();
	struct worker *w;

	cr_assert_eq(worker_new(&w, 1, 4, "worker-test"), 0);
	for (int i = 0; i < 100; i++) {
		cr_assert_eq(worker_submit(w, &j.base, WORKER_HIGH), 0);
		cr_assert(worker_await(w, &j.base, LONG_NS));
		cr_assert(j.ran);
		cr_assert_eq(worker_pending(w), 0);
	}
	worker_collect(w);
	cr_assert_not(j.done);
	cr_assert_eq(worker_free(w), 0);
}

/* worker_drain does not wait for stuck jobs. */
static void wait_all(struct worker *w)
{
	uint64_t deadline = clock_mono_ns() + LONG_NS;

	while (worker_pending(w) && clock_mono_ns() < deadline) {
		struct pollfd p = {.fd = worker_fd(w), .events = POLLIN};

		poll(&p, 1, 100);
		worker_collect(w);
	}
}

Test(worker, a_wait_that_times_out_replaces_the_thread)
{
	sem_t entered, gate;
	struct job stuck = JOB(.entered = &entered, .gate = &gate), next = JOB();
	struct worker *w;

	sem_init(&entered, 0, 0);
	sem_init(&gate, 0, 0);
	cr_assert_eq(worker_new(&w, 1, 4, "worker-test"), 0);
	cr_assert_eq(worker_submit(w, &stuck.base, WORKER_HIGH), 0);
	while (sem_wait(&entered) < 0)
		;
	while (!worker_stuck(w)) /* not before its thread sleeps */
		cr_assert_not(worker_await(w, &stuck.base, NS_PER_MS));
	cr_assert_eq(worker_stuck(w), 1);
	cr_assert_eq(worker_submit(w, &next.base, WORKER_HIGH), 0);
	cr_assert(worker_await(w, &next.base, LONG_NS));
	cr_assert_eq(worker_pending(w), 1);
	worker_drain(w, LONG_NS); /* nothing else is pending */
	sem_post(&gate);
	wait_all(w);
	cr_assert(stuck.done && !stuck.cancelled);
	cr_assert_eq(worker_stuck(w), 0);
	cr_assert_eq(worker_free(w), 0);
}

Test(worker, overdue_is_called_once_per_job_up_to_the_maximum_of_threads)
{
	sem_t entered, gate;
	struct job jobs[WORKER_STUCK_MAX + 2];
	struct worker *w;

	sem_init(&entered, 0, 0);
	sem_init(&gate, 0, 0);
	cr_assert_eq(worker_new(&w, 1, ARRAY_SIZE(jobs), "worker-test"), 0);
	for (size_t i = 0; i < ARRAY_SIZE(jobs); i++) {
		jobs[i] = (struct job)JOB(.entered = &entered, .gate = &gate);
		cr_assert_eq(worker_submit(w, &jobs[i].base, WORKER_LOW), 0);
		if (i == ARRAY_SIZE(jobs) - 1)
			break; /* no thread can be started for it */
		while (sem_wait(&entered) < 0)
			;
		while (!jobs[i].n_overdue)
			worker_check(w, NS_PER_MS);
	}
	worker_check(w, 0);
	for (size_t i = 0; i < ARRAY_SIZE(jobs) - 1; i++)
		cr_expect_eq(jobs[i].n_overdue, 1);
	cr_expect_gt(worker_blocked_ns(w, &jobs[ARRAY_SIZE(jobs) - 1].base), 0, "no thread is left for it");
	cr_assert_eq(worker_stuck(w), WORKER_STUCK_MAX + 1);
	cr_assert_not(jobs[ARRAY_SIZE(jobs) - 1].ran);
	for (size_t i = 0; i < ARRAY_SIZE(jobs); i++)
		sem_post(&gate);
	wait_all(w);
	cr_assert_eq(worker_stuck(w), 0);
	for (size_t i = 0; i < ARRAY_SIZE(jobs); i++)
		cr_expect(jobs[i].done);
	cr_assert_eq(worker_free(w), 0);
}

/* A stuck job may return after the stop. */
Test(worker, the_stop_leaves_a_stuck_thread_behind)
{
	static sem_t entered, gate;
	static struct job stuck = JOB(.entered = &entered, .gate = &gate);
	struct job queued = JOB();
	struct worker *w;
	uint64_t start;

	sem_init(&entered, 0, 0);
	sem_init(&gate, 0, 0);
	cr_assert_eq(worker_new(&w, 1, 4, "worker-test"), 0);
	cr_assert_eq(worker_submit(w, &stuck.base, WORKER_HIGH), 0);
	while (sem_wait(&entered) < 0)
		;
	cr_assert_eq(worker_submit(w, &queued.base, WORKER_LOW), 0);
	start = clock_mono_ns();
	cr_assert_eq(worker_free(w), 1);
	cr_assert_lt(clock_mono_ns() - start, LONG_NS);
	cr_assert(queued.cancelled && !stuck.done);
	sem_post(&gate);
}

/* --- late or stuck */

#define BOUND_NS (50 * NS_PER_MS)

static void check_for(struct worker *w, uint64_t ns)
{
	uint64_t end = clock_mono_ns() + ns;

	while (clock_mono_ns() < end) {
		worker_check(w, BOUND_NS);
		usleep(5000);
	}
}

/* A job that goes on until `stop` is set. */
struct busy_job {
	struct job job;
	atomic_bool begun, stop;
	int cpu;      /* that it runs on, beside others; -1: any */
	int sleep_us; /* after each bit of work; 0: never */
};

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	cr_assert_eq(sched_setaffinity(0, sizeof set, &set), 0);
}

static void busy_run(struct worker_job *base)
{
	struct busy_job *j = container_of(container_of(base, struct job, base), struct busy_job, job);

	if (j->cpu >= 0) {
		pin(j->cpu);
		sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0});
	}
	j->begun = true;
	while (!j->stop)
		if (j->sleep_us)
			usleep((useconds_t)j->sleep_us);
}

#define BUSY_JOB(...) \
	{.job = {.base = {.run = busy_run, .done = job_done, .overdue = job_overdue}}, __VA_ARGS__}

struct competitor {
	int cpu;
	atomic_bool *stop;
};

static void *compete(void *data)
{
	const struct competitor *c = data;

	pin(c->cpu);
	while (!*c->stop)
		;
	return NULL;
}

/* On a busy CPU, a thread that nobody prefers waits for nearly all of the time. */
Test(worker, a_thread_that_waits_for_a_cpu_is_not_stuck)
{
	struct busy_job j = BUSY_JOB(.cpu = sched_getcpu());
	struct job queued = JOB();
	atomic_bool stop = false;
	struct competitor c = {j.cpu, &stop};
	pthread_t others[4];
	struct worker *w;

	cr_assert_eq(worker_new(&w, 1, 4, "worker-test"), 0);
	cr_assert_eq(worker_submit(w, &j.job.base, WORKER_HIGH), 0);
	cr_assert_eq(worker_submit(w, &queued.base, WORKER_HIGH), 0);
	while (!j.begun)
		usleep(1000);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		cr_assert_eq(pthread_create(&others[i], NULL, compete, &c), 0);
	check_for(w, 20 * BOUND_NS);
	cr_expect_eq(j.job.n_overdue, 0);
	cr_expect_eq(worker_stuck(w), 0);
	cr_expect_leq(worker_blocked_ns(w, &j.job.base), BOUND_NS);
	cr_expect_not(queued.ran, "no other thread takes its place");
	j.stop = stop = true;
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		pthread_join(others[i], NULL);
	wait_all(w);
	cr_expect(j.job.done && queued.ran);
	cr_assert_eq(worker_free(w), 0);
}

/* Each sleep is short, as when a file is read from a slow disk. */
Test(worker, a_thread_that_sleeps_often_is_not_stuck)
{
	struct busy_job j = BUSY_JOB(.cpu = -1, .sleep_us = 2000);
	struct worker *w;

	cr_assert_eq(worker_new(&w, 1, 4, "worker-test"), 0);
	cr_assert_eq(worker_submit(w, &j.job.base, WORKER_HIGH), 0);
	for (int i = 0; i < 400;
	     i++) { /* a bound that a machine which stands still for a while does not reach */
		worker_check(w, 20 * BOUND_NS);
		usleep(5000);
	}
	cr_expect_eq(j.job.n_overdue, 0);
	j.stop = true;
	wait_all(w);
	cr_expect(j.job.done);
	cr_assert_eq(worker_free(w), 0);
}

/* Reads from a pipe that nobody writes to. */
struct pipe_job {
	struct job job;
	int fds[2];
};

static void pipe_run(struct worker_job *base)
{
	struct pipe_job *j = container_of(container_of(base, struct job, base), struct pipe_job, job);
	char byte;

	j->job.ran = read(j->fds[0], &byte, 1) == 1;
}

Test(worker, a_thread_that_is_blocked_is_stuck)
{
	struct pipe_job j = {.job = {.base = {.run = pipe_run, .done = job_done, .overdue = job_overdue}}};
	struct job next = JOB();
	uint64_t start = clock_mono_ns(), blocked;
	struct worker *w;

	cr_assert_eq(pipe(j.fds), 0);
	cr_assert_eq(worker_new(&w, 1, 4, "worker-test"), 0);
	cr_assert_eq(worker_submit(w, &j.job.base, WORKER_HIGH), 0);
	cr_assert_eq(worker_submit(w, &next.base, WORKER_HIGH), 0);
	while (!j.job.n_overdue && clock_mono_ns() - start < LONG_NS)
		check_for(w, 10 * NS_PER_MS);
	cr_assert_eq(j.job.n_overdue, 1);
	cr_expect_geq(clock_mono_ns() - start, BOUND_NS);
	cr_expect(worker_await(w, &next.base, LONG_NS), "another thread has taken its place");
	blocked = worker_blocked_ns(w, &j.job.base);
	cr_expect_gt(blocked, BOUND_NS);
	check_for(w, BOUND_NS);
	cr_expect_gt(worker_blocked_ns(w, &j.job.base), blocked);
	cr_expect_eq(j.job.n_overdue, 1, "once");
	cr_assert_eq(write(j.fds[1], "", 1), 1);
	wait_all(w);
	cr_expect(j.job.ran && j.job.done);
	cr_expect_eq(worker_stuck(w), 0);
	cr_assert_eq(worker_free(w), 0);
	close(j.fds[0]);
	close(j.fds[1]);
}

Test(worker, urgent_jobs_run_urgently)
{
	struct job ordinary = JOB(), urgent = JOB(), next = JOB();
	struct worker *w;

	if (urgency_allow(0.1) < 0)
		cr_skip_test("no permission for real-time policies");
	urgent.base.urgent = true;
	cr_assert_eq(worker_new(&w, 1, 8, "worker-test"), 0);
	cr_assert_eq(worker_submit(w, &ordinary.base, WORKER_LOW), 0);
	cr_assert_eq(worker_submit(w, &urgent.base, WORKER_LOW), 0);
	cr_assert_eq(worker_submit(w, &next.base, WORKER_LOW), 0);
	worker_drain(w, LONG_NS);
	cr_expect_eq(ordinary.policy, SCHED_OTHER);
	cr_expect_eq(urgent.policy, SCHED_RR);
	cr_expect_eq(next.policy, SCHED_OTHER);
	worker_free(w);
}

/* A job that has begun becomes urgent, without a CPU for it to find out; the next one is not. */
Test(worker, a_running_job_is_urged)
{
	sem_t entered, gate;
	struct job urged = JOB(.entered = &entered, .gate = &gate), next = JOB();
	struct worker *w;

	sem_init(&entered, 0, 0);
	sem_init(&gate, 0, 0);
	if (urgency_allow(0.1) < 0)
		cr_skip_test("no permission for real-time policies");
	cr_assert_eq(worker_new(&w, 1, 8, "worker-test"), 0);
	cr_assert_eq(worker_submit(w, &urged.base, WORKER_LOW), 0);
	cr_assert_eq(worker_submit(w, &next.base, WORKER_LOW), 0);
	while (sem_wait(&entered) < 0)
		;
	worker_urge(w, &urged.base);
	sem_post(&gate);
	worker_drain(w, LONG_NS);
	cr_expect_eq(urged.policy, SCHED_OTHER);
	cr_expect_eq(urged.policy_after, SCHED_RR);
	cr_expect_eq(next.policy, SCHED_OTHER);
	worker_free(w);
}

/* An idle thread does not wait for a CPU before it takes an urgent job. */
Test(worker, an_idle_thread_is_made_urgent)
{
	struct job first = JOB(), urgent = JOB();
	struct worker *w;

	if (urgency_allow(0.1) < 0)
		cr_skip_test("no permission for real-time policies");
	urgent.base.urgent = true;
	cr_assert_eq(worker_new(&w, 1, 8, "worker-test"), 0);
	cr_assert_eq(worker_submit(w, &first.base, WORKER_LOW), 0);
	worker_drain(w, LONG_NS);
	cr_assert_eq(worker_submit(w, &urgent.base, WORKER_LOW), 0);
	worker_drain(w, LONG_NS);
	cr_expect_eq(first.policy, SCHED_OTHER);
	cr_expect_eq(urgent.policy, SCHED_RR);
	worker_free(w);
}

/* Before the end of the process, all are. */
Test(worker, threads_are_hurried)
{
	struct job last = JOB();
	struct worker *w;

	if (urgency_allow(0.1) < 0)
		cr_skip_test("no permission for real-time policies");
	cr_assert_eq(worker_new(&w, 1, 8, "worker-test"), 0);
	urgency_ending();
	worker_hurry(w);
	cr_assert_eq(worker_submit(w, &last.base, WORKER_LOW), 0);
	worker_drain(w, LONG_NS);
	cr_expect_eq(last.policy, SCHED_RR);
	worker_free(w);
}

Test(worker, a_thread_is_reserved_for_high_priority)
{
	sem_t entered, gate;
	struct job low[] = {JOB(.entered = &entered, .gate = &gate), JOB()}, high = JOB();
	struct worker *w;

	sem_init(&entered, 0, 0);
	sem_init(&gate, 0, 0);
	cr_assert_eq(worker_new(&w, 2, 8, "worker-test"), 0);
	worker_reserve(w, 1);
	for (size_t i = 0; i < ARRAY_SIZE(low); i++)
		cr_assert_eq(worker_submit(w, &low[i].base, WORKER_LOW), 0);
	while (sem_wait(&entered) < 0)
		;
	cr_assert_eq(worker_submit(w, &high.base, WORKER_HIGH), 0);
	cr_expect(worker_await(w, &high.base, LONG_NS), "it does not wait for the first of low priority");
	cr_expect_not(low[1].ran, "the second of low priority does");
	sem_post(&gate);
	worker_drain(w, LONG_NS);
	cr_expect(low[0].done && low[1].done);
	worker_free(w);
}

static void job_compute(struct worker_job *base)
{
	struct job *j = container_of(base, struct job, base);
	uint64_t begin = clock_thread_cpu_ns();

	while (clock_thread_cpu_ns() - begin < WORKER_CPU_MAX_NS + NS_PER_SEC)
		;
	j->ran = true;
}

/* A job that computes is not stuck, but its time is bounded, too: another thread takes its place. */
Test(worker, a_job_that_computes_for_too_long)
{
	struct job costly = JOB(), next = JOB();
	struct worker *w;

	costly.base.run = job_compute;
	cr_assert_eq(worker_new(&w, 1, 8, "worker-test"), 0);
	cr_assert_eq(worker_submit(w, &costly.base, WORKER_HIGH), 0);
	cr_assert_eq(worker_submit(w, &next.base, WORKER_HIGH), 0);
	for (unsigned i = 0; i < 6000 && !costly.n_overdue; i++) {
		usleep(10000);
		worker_check(w, LONG_NS);
	}
	cr_expect_eq(costly.n_overdue, 1);
	cr_expect(costly.base.costly);
	worker_drain(w, LONG_NS);
	cr_expect(next.done);
	cr_expect_not(next.base.costly);
	for (unsigned i = 0; i < 6000 && !costly.done; i++) {
		usleep(10000);
		worker_collect(w);
	}
	cr_expect(costly.done);
	worker_free(w);
}
