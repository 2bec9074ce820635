// SPDX-License-Identifier: Apache-2.0
/* Requests that are answered at once, late, or never. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "tests/unit/agent/track/fake_host.h"

#define PID 100u

struct probe_request {
	struct request request;
	unsigned n_run, n_again; /* n_again: as many times it is incomplete */
	uint64_t touches;	 /* file system that it gets to */
	bool refused_it;
	unsigned *n_late, *n_stuck, *n_freed;
};

struct counts {
	unsigned late, stuck, freed;
};

static void run(struct request *q)
{
	struct probe_request *p = container_of(q, struct probe_request, request);

	p->n_run++;
	p->refused_it = false;
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

static bool refused(struct request *q)
{
	return container_of(q, struct probe_request, request)->refused_it;
}

static void stuck(struct request *q)
{
	++*container_of(q, struct probe_request, request)->n_stuck;
}

static void free_it(struct request *q)
{
	struct probe_request *p = container_of(q, struct probe_request, request);

	++*p->n_freed;
	free(p);
}

static const struct request_kind kind = {.what = "testing",
					 .run = run,
					 .again = again,
					 .refused = refused,
					 .late = late,
					 .stuck = stuck,
					 .free = free_it};
/* Of a kind whose late answers are dropped. */
static const struct request_kind bare_kind = {.what = "testing", .run = run, .free = free_it};

static struct probe_request *request_new(struct counts *c)
{
	struct probe_request *p = calloc(1, sizeof *p);

	cr_assert_not_null(p);
	p->n_late = &c->late;
	p->n_stuck = &c->stuck;
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
	cr_expect_eq(b->counts.stuck, 0);
	cr_expect_eq(fake_pool_work(&b->host.readers), 1);
	cr_expect(b->counts.late == 1 && b->counts.freed == 1);
	cr_expect_eq(requests_pending(b->requests), 0);
	cr_expect_eq(stats(b).late, 1);
}

/* Advances the clock and checks, as the main loop does. */
static void wait(struct bench *b, uint64_t ns)
{
	for (uint64_t end = fake_now_ns + ns; fake_now_ns < end;) {
		fake_now_ns += end - fake_now_ns < NS_PER_SEC / 10 ? end - fake_now_ns : NS_PER_SEC / 10;
		requests_check(b->requests);
	}
}

/* The threads that have begun sleep for so long that their requests are stuck. */
static void stick(struct bench *b)
{
	fake_pool_stick(&b->host.readers);
	wait(b, REQUEST_BLOCKED_NS + 1);
}

/* Makes one that is stuck with a file system; 0: with its process. */
static struct probe_request *make_stuck(struct bench *b, uint32_t pid, uint64_t dev)
{
	struct probe_request *p = make_late(b, pid, true);

	p->touches = p->request.watch.dev = dev;
	stick(b);
	return p;
}

static void make_parked(struct bench *b, uint32_t pid, uint64_t dev, unsigned n)
{
	unsigned before = stats(b).n_parked;

	for (unsigned i = 0; i < n; i++) {
		struct probe_request *p = request_new(&b->counts);

		p->touches = dev;
		cr_assert_eq(requests_make(b->requests, &p->request, &kind, pid), REQUEST_LATER);
	}
	cr_assert_eq(stats(b).n_parked, before + n);
}

/* Takes all jobs away: their threads do not come back. Returns them. */
static struct worker_job *take_away(struct fake_pool *p)
{
	struct worker_job *jobs = p->first;

	p->first = NULL;
	p->tail = &p->first;
	return jobs;
}

static void bring_back(struct fake_pool *p, struct worker_job *jobs)
{
	while (jobs) {
		struct worker_job *next = jobs->next;

		jobs->next = NULL;
		*p->tail = jobs;
		p->tail = &jobs->next;
		jobs = next;
	}
}

Test(requests, stuck)
{
	_cleanup_bench_ struct bench *b = bench_new();

	(void)make_stuck(b, PID, 0);
	wait(b, NS_PER_SEC);
	cr_expect_eq(b->counts.stuck, 1, "once");
	cr_expect_eq(b->counts.freed, 0, "the thread still has it");
	cr_expect_eq(requests_pending(b->requests), 0);
	cr_expect_eq(stats(b).given_up, 1);
	cr_expect_eq(fake_pool_work(&b->host.readers), 1); /* back after all */
	cr_expect_eq(b->counts.late, 1, "the answer is taken");
	cr_expect_eq(b->counts.freed, 1);
}

/* A thread that computes, or waits for a CPU, is only late. */
Test(requests, late_by_minutes)
{
	_cleanup_bench_ struct bench *b = bench_new();

	make_late(b, PID, true);
	make_late(b, PID + 1, false);
	wait(b, 600 * NS_PER_SEC);
	cr_expect_eq(b->counts.stuck, 0);
	cr_expect_eq(requests_pending(b->requests), 2);
	cr_expect_eq(fake_pool_work(&b->host.readers), 2);
	cr_expect_eq(b->counts.late, 2);
}

/* Its thread was seen asleep, but goes on before it counts as stuck. */
Test(requests, blocked_for_a_while)
{
	_cleanup_bench_ struct bench *b = bench_new();

	make_late(b, PID, true);
	fake_pool_stick(&b->host.readers);
	wait(b, REQUEST_BLOCKED_NS / 2);
	b->host.readers.stuck_since_ns = 0;
	wait(b, 60 * NS_PER_SEC);
	cr_expect_eq(b->counts.stuck, 0);
	cr_expect_eq(requests_pending(b->requests), 1);
	cr_expect_eq(fake_pool_work(&b->host.readers), 1);
	cr_expect_eq(b->counts.late, 1);
}

/* Nobody waits for requests that no thread can begin with. They are made when a thread is free. */
Test(requests, all_threads_blocked)
{
	_cleanup_bench_ struct bench *b = bench_new();

	fake_pool_stick(&b->host.readers);
	b->host.readers.all_stuck = true;
	make_late(b, PID, false);
	wait(b, REQUEST_BLOCKED_NS + NS_PER_SEC);
	cr_expect_eq(requests_pending(b->requests), 0);
	b->host.readers.all_stuck = false;
	wait(b, NS_PER_SEC);
	cr_expect_eq(requests_pending(b->requests), 1);
	cr_expect_eq(b->counts.stuck, 0);
	cr_expect_eq(fake_pool_work(&b->host.readers), 1);
	cr_expect_eq(b->counts.late, 1);
}

/* What is stuck with the process itself: other requests about it wait for its thread. */
Test(requests, stuck_process)
{
	_cleanup_bench_ struct bench *b = bench_new();
	struct probe_request *p = request_new(&b->counts);
	unsigned n_submitted;

	(void)make_stuck(b, PID, 0);
	n_submitted = b->host.readers.n_submitted;
	make_parked(b, PID, 0, 2);
	cr_expect_eq(b->host.readers.n_submitted, n_submitted, "the process is not touched");
	cr_expect_eq(requests_make(b->requests, &p->request, &kind, PID + 1), REQUEST_DONE);
	cr_expect_eq(fake_pool_work(&b->host.readers), 3, "with its thread, the others are back");
	cr_expect_eq(b->counts.late, 3);
	cr_expect_eq(stats(b).n_parked, 0);
	cr_expect_eq(stats(b).refused, 0);
	cr_expect_eq(requests_make(b->requests, &p->request, &kind, PID), REQUEST_DONE);
	free(p);
}

/* What is stuck with a file system: requests that get to it wait, others about the process do not. */
Test(requests, stuck_file_system)
{
	_cleanup_bench_ struct bench *b = bench_new();
	struct probe_request *p = request_new(&b->counts);

	(void)make_stuck(b, PID, 77);
	make_parked(b, PID, 77, 1);
	make_parked(b, PID + 1, 77, 1);
	p->touches = 78;
	cr_expect_eq(requests_make(b->requests, &p->request, &kind, PID), REQUEST_DONE);
	cr_expect_eq(p->n_run, 1);
	cr_expect_eq(fake_pool_work(&b->host.readers), 3);
	cr_expect_eq(b->counts.late, 3);
	p->touches = 77;
	cr_expect_eq(requests_make(b->requests, &p->request, &kind, PID), REQUEST_DONE, "it answers");
	cr_expect_not(p->refused_it);
	free(p);
}

Test(requests, begun_while_its_process_is_stuck)
{
	_cleanup_bench_ struct bench *b = bench_new();
	struct probe_request *p = request_new(&b->counts);

	(void)make_stuck(b, PID, 0);
	cr_assert(requests_begin(b->requests, &p->request, &bare_kind, PID));
	cr_expect_eq(requests_wait(b->requests, &p->request), REQUEST_LATER);
	cr_expect_eq(stats(b).n_parked, 1);
	cr_expect_eq(fake_pool_work(&b->host.readers), 2);
	cr_expect_eq(b->counts.freed, 2);
}

/* The first thread never comes back, though the process answers. */
Test(requests, parked_ones_are_tried)
{
	_cleanup_bench_ struct bench *b = bench_new();
	struct worker_job *stuck;

	(void)make_stuck(b, PID, 0);
	stuck = take_away(&b->host.readers);
	make_parked(b, PID, 0, 3);
	wait(b, REQUEST_RETRY_NS / 2);
	cr_expect_eq(stats(b).n_parked, 3, "not yet");
	wait(b, REQUEST_RETRY_NS);
	cr_expect_eq(stats(b).n_parked, 2, "one at a time");
	cr_expect_eq(fake_pool_work(&b->host.readers), 3, "it is answered: the others follow");
	cr_expect_eq(b->counts.late, 3);
	cr_expect_eq(stats(b).n_parked, 0);
	bring_back(&b->host.readers, stuck);
	cr_expect_eq(fake_pool_work(&b->host.readers), 1);
	cr_expect_eq(b->counts.late, 4);
}

/* Those that are tried get stuck, too: they take few threads, and come ever more rarely. */
Test(requests, parked_ones_are_tried_without_success)
{
	_cleanup_bench_ struct bench *b = bench_new();
	uint64_t start;

	(void)make_stuck(b, PID, 77);
	make_parked(b, PID, 77, 20);
	start = fake_now_ns;
	for (unsigned n = 1; n < REQUEST_RETRY_THREADS; n++) {
		while (stats(b).n_parked > 20 - n)
			wait(b, NS_PER_SEC / 10);
		for (struct probe_request *p = (struct probe_request *)b->host.readers.first; p;
		     p = (struct probe_request *)p->request.job.next)
			p->request.watch.dev = 77;
		stick(b);
	}
	cr_expect_geq(fake_now_ns - start, (1 + 2 + 4) * REQUEST_RETRY_NS);
	wait(b, 3600 * NS_PER_SEC);
	cr_expect_eq(stats(b).given_up, REQUEST_RETRY_THREADS);
	cr_expect_eq(stats(b).n_parked, 20 - (REQUEST_RETRY_THREADS - 1));
	cr_expect_eq(fake_pool_work(&b->host.readers), 21, "nothing is lost");
	cr_expect_eq(b->counts.late, 21);
}

Test(requests, parked_up_to_a_maximum)
{
	_cleanup_bench_ struct bench *b = bench_new();
	struct probe_request *p = request_new(&b->counts);

	(void)make_stuck(b, PID, 0);
	make_parked(b, PID, 0, REQUEST_PARKED_MAX);
	cr_expect_eq(requests_make(b->requests, &p->request, &kind, PID), REQUEST_REFUSED);
	cr_expect_eq(stats(b).refused, 1);
	free(p);
}

/* From now on the log is a file. */
static FILE *log_capture(void)
{
	FILE *log = tmpfile();

	cr_assert_not_null(log);
	cr_assert_eq(dup2(fileno(log), STDERR_FILENO), STDERR_FILENO);
	return log;
}

/* How often the log says so. */
static unsigned count_lines(FILE *log, const char *text)
{
	char line[1024];
	unsigned n = 0;

	rewind(log);
	while (fgets(line, sizeof line, log))
		n += strstr(line, text) != NULL;
	return n;
}

Test(requests, the_log_names_each_file_system_once)
{
	_cleanup_bench_ struct bench *b = bench_new();
	FILE *log = log_capture();

	for (uint32_t i = 0; i < 3; i++) {
		struct probe_request *p = make_late(b, PID + i, true);

		p->request.watch.dev = makedev(0, 45);
		p->request.path = "/mnt/file";
	}
	stick(b);
	cr_assert_eq(stats(b).given_up, 3);
	cr_expect_eq(count_lines(log, "does not answer"), 0, "not yet: it may be slow");
	wait(b, REQUEST_REPORT_FILES_NS);
	(void)fake_pool_work(&b->host.readers);
	(void)make_stuck(b, PID, makedev(0, 45)); /* again, within a minute */
	wait(b, REQUEST_REPORT_FILES_NS);
	(void)fake_pool_work(&b->host.readers);
	cr_expect_eq(count_lines(log, "file system 0:45 (/mnt/file) does not answer"), 1);
	cr_expect_eq(count_lines(log, "does not answer"), 1);
}

/* Its memory may be locked by one of its threads that waits for a busy CPU. */
Test(requests, the_log_waits_longer_for_processes)
{
	_cleanup_bench_ struct bench *b = bench_new();
	FILE *log = log_capture();

	(void)make_stuck(b, PID, 0);
	wait(b, REQUEST_REPORT_PROCESS_NS - 5 * NS_PER_SEC);
	cr_expect_eq(count_lines(log, "has been blocked"), 0);
	wait(b, 10 * NS_PER_SEC);
	cr_expect_eq(count_lines(log, "has been blocked"), 1);
	(void)fake_pool_work(&b->host.readers);
	cr_expect_eq(count_lines(log, "answers again"), 1);
}

Test(requests, the_log_says_when_it_answers)
{
	_cleanup_bench_ struct bench *b = bench_new();
	FILE *log = log_capture();

	(void)make_stuck(b, PID, makedev(0, 45));
	wait(b, 9 * NS_PER_SEC);
	(void)fake_pool_work(&b->host.readers);
	cr_expect_eq(count_lines(log, "file system 0:45 answers again after 11.0 s"), 1);
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
