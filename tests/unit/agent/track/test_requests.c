// SPDX-License-Identifier: Apache-2.0
/* Requests that are answered at once, late, or never. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/agent/track/fake_host.h"

#define PID 100u

struct probe_request {
	struct request request;
	unsigned n_run, n_again; /* n_again: as many times it is incomplete */
	uint64_t touches;	 /* file system that it gets to */
	bool refused_it;
	unsigned *n_late, *n_given_up, *n_freed;
};

struct counts {
	unsigned late, given_up, freed;
};

static void run(struct request *q)
{
	struct probe_request *p = container_of(q, struct probe_request, request);

	p->n_run++;
	for (unsigned i = 0; i < q->watch.n_refused; i++)
		p->refused_it |= q->watch.refused[i] == p->touches;
	q->watch.dev = p->touches;
}

static bool again(struct request *q)
{
	struct probe_request *p = container_of(q, struct probe_request, request);

	return p->n_again && p->n_again--;
}

static void late(struct request *q)
{
	++*container_of(q, struct probe_request, request)->n_late;
}

static void give_up(struct request *q)
{
	++*container_of(q, struct probe_request, request)->n_given_up;
}

static void free_it(struct request *q)
{
	struct probe_request *p = container_of(q, struct probe_request, request);

	++*p->n_freed;
	free(p);
}

static const struct request_kind kind = {
	.what = "testing", .run = run, .again = again, .late = late, .give_up = give_up, .free = free_it};
/* Of a kind whose late answers are dropped. */
static const struct request_kind bare_kind = {.what = "testing", .run = run, .free = free_it};

static struct probe_request *request_new(struct counts *c)
{
	struct probe_request *p = calloc(1, sizeof *p);

	cr_assert_not_null(p);
	p->n_late = &c->late;
	p->n_given_up = &c->given_up;
	p->n_freed = &c->freed;
	return p;
}

struct bench {
	struct fake_host host;
	struct requests *requests;
	struct counts counts;
};

static struct bench *bench_new(void)
{
	struct bench *b = calloc(1, sizeof *b);

	cr_assert_not_null(b);
	fake_host_init(&b->host);
	cr_assert_eq(requests_new(&b->requests, &b->host.host), 0);
	return b;
}

static void bench_free(struct bench *b)
{
	fake_pool_cancel(&b->host.readers);
	worker_free(b->host.host.tables);
	requests_free(b->requests);
	fake_host_fini(&b->host);
	free(b);
}

DEFINE_CLEANUP(struct bench *, bench_free)
#define _cleanup_bench_ _cleanup_(bench_free_p)

static struct requests_stats stats(const struct bench *b)
{
	struct requests_stats s;

	requests_stats(b->requests, &s);
	return s;
}

/* Makes one that comes late; whether its thread has begun. */
static struct probe_request *make_late(struct bench *b, uint32_t pid, bool begun)
{
	struct probe_request *p = request_new(&b->counts);

	b->host.readers.answer = FAKE_LATE;
	cr_assert_eq(requests_make(b->requests, &p->request, &kind, pid), REQUEST_LATER);
	b->host.readers.answer = FAKE_NOW;
	if (begun)
		p->request.began_ns = fake_now_ns;
	return p;
}

Test(requests, at_once)
{
	_cleanup_bench_ struct bench *b = bench_new();
	struct probe_request *p = request_new(&b->counts);

	b->host.readers.answer_ns = NS_PER_MS;
	cr_expect_eq(requests_make(b->requests, &p->request, &kind, PID), REQUEST_DONE);
	cr_expect_eq(p->n_run, 1);
	cr_expect_eq(b->counts.freed, 0, "it is the caller's");
	cr_expect_eq(stats(b).waited_ns, NS_PER_MS);
	cr_expect_eq(stats(b).waited_max_ns, NS_PER_MS);
	cr_expect_eq(requests_pending(b->requests), 0);
	free(p);
}

Test(requests, incomplete)
{
	_cleanup_bench_ struct bench *b = bench_new();
	struct probe_request *p = request_new(&b->counts);

	p->n_again = 1;
	cr_expect_eq(requests_make(b->requests, &p->request, &kind, PID), REQUEST_DONE);
	cr_expect_eq(p->n_run, 2);
	free(p);
	p = make_late(b, PID, false);
	p->n_again = 1;
	cr_expect_eq(fake_pool_work(&b->host.readers), 2, "run again, though it is late");
	cr_expect(b->counts.late == 1 && b->counts.freed == 1);
}

/* The pool has no room for the second part: what there is counts. */
Test(requests, incomplete_and_no_room)
{
	_cleanup_bench_ struct bench *b = bench_new();
	struct probe_request *p = make_late(b, PID, false);

	p->n_again = 1;
	b->host.readers.full = true;
	cr_expect_eq(fake_pool_work(&b->host.readers), 1);
	cr_expect(b->counts.late == 1 && b->counts.freed == 1);
}

Test(requests, late)
{
	_cleanup_bench_ struct bench *b = bench_new();

	make_late(b, PID, true);
	cr_expect_eq(requests_pending(b->requests), 1);
	requests_check(b->requests);
	cr_expect_eq(b->counts.given_up, 0);
	cr_expect_eq(fake_pool_work(&b->host.readers), 1);
	cr_expect(b->counts.late == 1 && b->counts.freed == 1);
	cr_expect_eq(requests_pending(b->requests), 0);
	cr_expect_eq(stats(b).late, 1);
}

Test(requests, never)
{
	_cleanup_bench_ struct bench *b = bench_new();

	make_late(b, PID, true);
	fake_now_ns += REQUEST_TIMEOUT_NS + 1;
	requests_check(b->requests);
	requests_check(b->requests);
	cr_expect_eq(b->counts.given_up, 1, "once");
	cr_expect_eq(b->counts.freed, 0, "the thread still has it");
	cr_expect_eq(requests_pending(b->requests), 0);
	cr_expect_eq(stats(b).given_up, 1);
	cr_expect_eq(fake_pool_work(&b->host.readers), 1); /* back after all */
	cr_expect_eq(b->counts.late, 0, "the answer is dropped");
	cr_expect_eq(b->counts.freed, 1);
}

/* While no thread comes to it, it may be that the CPUs are busy. */
Test(requests, never_begun)
{
	_cleanup_bench_ struct bench *b = bench_new();

	make_late(b, PID, false);
	fake_now_ns += REQUEST_QUEUE_TIMEOUT_NS - NS_PER_SEC;
	requests_check(b->requests);
	cr_expect_eq(b->counts.given_up, 0);
	fake_now_ns += 2 * NS_PER_SEC;
	requests_check(b->requests);
	cr_expect_eq(b->counts.given_up, 1);
	cr_expect_eq(b->host.readers.n_checks, 2);
}

/* What is stuck with the process itself: no other request is made about it. */
Test(requests, stuck_process)
{
	_cleanup_bench_ struct bench *b = bench_new();
	struct probe_request *p = request_new(&b->counts);

	make_late(b, PID, true);
	fake_now_ns += REQUEST_TIMEOUT_NS + 1;
	requests_check(b->requests);
	cr_expect_eq(requests_make(b->requests, &p->request, &kind, PID), REQUEST_REFUSED);
	cr_expect_eq(stats(b).refused, 1);
	cr_expect_not(requests_begin(b->requests, &p->request, &kind, PID));
	cr_expect_eq(requests_make(b->requests, &p->request, &kind, PID + 1), REQUEST_DONE);
	(void)fake_pool_work(&b->host.readers);
	cr_expect_eq(requests_make(b->requests, &p->request, &kind, PID), REQUEST_DONE, "its thread is back");
	free(p);
}

/* What is stuck with a file system: that one is not touched. */
Test(requests, stuck_file_system)
{
	_cleanup_bench_ struct bench *b = bench_new();
	struct probe_request *stuck = make_late(b, PID, true), *p = request_new(&b->counts);

	stuck->request.watch.dev = 77;
	fake_now_ns += REQUEST_TIMEOUT_NS + 1;
	requests_check(b->requests);
	p->touches = 77;
	cr_expect_eq(requests_make(b->requests, &p->request, &kind, PID), REQUEST_DONE);
	cr_expect(p->refused_it);
	p->refused_it = false;
	p->touches = 78;
	cr_expect_eq(requests_make(b->requests, &p->request, &kind, PID), REQUEST_DONE);
	cr_expect_not(p->refused_it);
	free(p);
}

/* Behind a late one about the same process, the main loop does not wait. */
Test(requests, behind_a_late_one)
{
	_cleanup_bench_ struct bench *b = bench_new();
	struct probe_request *p = request_new(&b->counts);
	unsigned n_waits;

	make_late(b, PID, true);
	n_waits = b->host.readers.n_waits;
	cr_expect_eq(requests_make(b->requests, &p->request, &kind, PID), REQUEST_LATER);
	cr_expect_eq(b->host.readers.n_waits, n_waits);
	cr_expect_eq(fake_pool_work(&b->host.readers), 2);
	cr_expect_eq(b->counts.late, 2);
}

Test(requests, full_queue)
{
	_cleanup_bench_ struct bench *b = bench_new();
	struct probe_request *p = request_new(&b->counts);

	b->host.readers.full = true;
	cr_expect_eq(requests_make(b->requests, &p->request, &kind, PID), REQUEST_REFUSED);
	cr_expect_not(requests_begin(b->requests, &p->request, &kind, PID));
	free(p);
}

Test(requests, in_two_steps)
{
	_cleanup_bench_ struct bench *b = bench_new();
	struct probe_request *p = request_new(&b->counts);

	cr_assert(requests_begin(b->requests, &p->request, &bare_kind, PID));
	cr_expect_eq(b->host.readers.n_waits, 0);
	cr_expect_eq(requests_wait(b->requests, &p->request), REQUEST_DONE);
	free(p);
	p = request_new(&b->counts);
	cr_assert(requests_begin(b->requests, &p->request, &bare_kind, PID));
	b->host.readers.answer = FAKE_LATE;
	cr_expect_eq(requests_wait(b->requests, &p->request), REQUEST_LATER);
	cr_expect_eq(fake_pool_work(&b->host.readers), 1);
	cr_expect(b->counts.late == 0 && b->counts.freed == 1, "a late answer of that kind is dropped");
}

/* How long n requests without an answer make the main loop wait; 0.1 ms of each wait is not counted. */
static void wait_in_vain(struct bench *b, uint32_t pid, unsigned n, uint64_t every_ns, uint64_t most_ns)
{
	uint64_t before = stats(b).waited_ns;

	for (unsigned i = 0; i < n; i++) {
		fake_now_ns += every_ns;
		make_late(b, pid + i, false);
	}
	cr_expect_leq(stats(b).waited_ns - before, (most_ns + n * REQUEST_WAIT_FREE_NS) * 11 / 10,
		      "%" PRIu64 " ns instead of %" PRIu64, stats(b).waited_ns - before, most_ns);
	cr_expect_geq(stats(b).waited_ns - before, most_ns * 9 / 10);
}

/* A second in all at the start, then 1/20 of the time; little of it can be saved up. */
Test(requests, waiting_is_bounded)
{
	_cleanup_bench_ struct bench *b = bench_new();

	b->host.readers.answer_ns = REQUEST_WAIT_NS;
	wait_in_vain(b, 1000, 2000, 0, REQUEST_WAIT_START_NS);
	wait_in_vain(b, 5000, 1000, NS_PER_MS, 50 * NS_PER_MS);
	fake_now_ns += 3600 * NS_PER_SEC;
	wait_in_vain(b, 9000, 100, 0, REQUEST_WAIT_SAVED_NS);
}

Test(requests, account)
{
	_cleanup_bench_ struct bench *b = bench_new();
	uint64_t account = 0;

	fake_cpu_step_ns = 1000;
	make_late(b, PID, false); /* charged to no account */
	cr_expect_null(requests_charge(b->requests, &account));
	make_late(b, PID + 1, false);
	cr_expect_eq(requests_charge(b->requests, NULL), &account);
	make_late(b, PID + 2, false);
	(void)fake_pool_work(&b->host.readers);
	cr_expect_eq(account, 2000, "what the thread and what taking the answer took");
}

Test(requests, cancelled)
{
	_cleanup_bench_ struct bench *b = bench_new();

	make_late(b, PID, false);
	fake_pool_cancel(&b->host.readers);
	cr_expect(b->counts.late == 0 && b->counts.freed == 1);
}

Test(requests, drained)
{
	_cleanup_bench_ struct bench *b = bench_new();

	make_late(b, PID, false);
	requests_drain(b->requests, NS_PER_MS);
	cr_expect_eq(b->counts.late, 1);
}
