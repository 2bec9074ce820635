// SPDX-License-Identifier: Apache-2.0
#include "agent/track/requests.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/base/log.h"
#include "agent/base/priority.h"

#define REPLACE_NS (20 * NS_PER_MS) /* after this, another thread takes the place of one that still reads */

struct requests {
	struct host_clock clock;
	struct proc_view proc;
	struct job_pool pool;
	struct request *late;	 /* requests that the main loop no longer waits for */
	uint64_t may_wait_ns;	 /* for answers, in all */
	uint64_t may_wait_at_ns; /* when may_wait_ns was brought up to date */
	uint64_t *account;
	struct requests_stats stats;
};

int requests_new(struct requests **ret, const struct track_host *host)
{
	struct requests *r = calloc(1, sizeof *r);

	if (!r)
		return -ENOMEM;
	r->clock = host->clock;
	r->proc = host->proc;
	r->pool = host->readers;
	r->may_wait_ns = REQUEST_WAIT_START_NS;
	r->may_wait_at_ns = r->clock.mono_ns();
	*ret = r;
	return 0;
}

void requests_free(struct requests *r)
{
	free(r);
}

static void on_run(struct worker_job *job)
{
	static _Thread_local bool prepared;
	struct request *q = container_of(job, struct request, job);
	uint64_t before = q->clock.thread_cpu_ns();

	if (!prepared)
		priority_short_slices(); /* the main loop waits for us */
	prepared = true;
	__atomic_store_n(&q->began_ns, q->clock.mono_ns(), __ATOMIC_RELEASE);
	q->kind->run(q);
	q->cpu_ns += q->clock.thread_cpu_ns() - before;
}

static void late_add(struct requests *r, struct request *q)
{
	q->next = r->late;
	r->late = q;
	r->stats.pending++;
}

static void late_remove(struct requests *r, struct request *q)
{
	struct request **at = &r->late;

	while (*at && *at != q)
		at = &(*at)->next;
	if (!*at)
		return;
	*at = q->next;
	r->stats.pending -= !q->given_up;
}

static void take_late(struct requests *r, struct request *q)
{
	uint64_t before = r->clock.thread_cpu_ns();
	uint64_t *former = requests_charge(r, q->account);

	q->kind->late(q);
	(void)requests_charge(r, former);
	if (q->account)
		*q->account += q->cpu_ns + r->clock.thread_cpu_ns() - before;
}

static void on_done(struct worker_job *job, bool cancelled)
{
	struct request *q = container_of(job, struct request, job);
	bool wanted = !cancelled && !q->given_up;
	struct requests *r = q->owner;

	if (wanted && q->kind->again && q->kind->again(q) &&
	    r->pool.submit(r->pool.data, &q->job, WORKER_HIGH) == 0)
		return;
	late_remove(r, q);
	if (wanted && q->kind->late)
		take_late(r, q);
	q->kind->free(q);
}

/*
 * Tells the request which file systems it must not touch. False: an earlier request is stuck with the process
 * itself. *ret_late: one about the same process is late; this one would only wait behind it.
 */
static bool refusals_take(const struct requests *r, struct request *q, bool *ret_late)
{
	*ret_late = false;
	q->watch = (struct proc_open_watch){.refused = q->refused};
	for (const struct request *l = r->late; l; l = l->next) {
		uint64_t dev = __atomic_load_n(&l->watch.dev, __ATOMIC_ACQUIRE);

		if (!l->given_up)
			*ret_late |= l->pid == q->pid;
		else if (!dev && l->pid == q->pid)
			return false;
		else if (dev && q->watch.n_refused < REQUEST_REFUSED_MAX)
			q->refused[q->watch.n_refused++] = dev;
	}
	return true;
}

/* How long the main loop may wait now. */
static uint64_t wait_limit(struct requests *r)
{
	uint64_t now = r->clock.mono_ns();

	if (r->may_wait_ns < REQUEST_WAIT_SAVED_NS) { /* there is more at the start */
		r->may_wait_ns += (now - r->may_wait_at_ns) / REQUEST_WAIT_SHARE;
		if (r->may_wait_ns > REQUEST_WAIT_SAVED_NS)
			r->may_wait_ns = REQUEST_WAIT_SAVED_NS;
	}
	r->may_wait_at_ns = now;
	return r->may_wait_ns < REQUEST_WAIT_NS ? r->may_wait_ns : REQUEST_WAIT_NS;
}

static bool await(struct requests *r, struct request *q)
{
	uint64_t most = wait_limit(r), before = r->may_wait_at_ns, waited, counted;
	bool done;

	if (most < REQUEST_WAIT_FREE_NS)
		return false;
	done = r->pool.await(r->pool.data, &q->job, most);
	waited = r->clock.mono_ns() - before;
	counted = waited > REQUEST_WAIT_FREE_NS ? waited - REQUEST_WAIT_FREE_NS : 0;
	r->may_wait_ns -= counted < r->may_wait_ns ? counted : r->may_wait_ns;
	r->stats.waited_ns += waited;
	if (waited > r->stats.waited_max_ns)
		r->stats.waited_max_ns = waited;
	return done;
}

static void prepare(struct requests *r, struct request *q, const struct request_kind *kind, uint32_t pid)
{
	q->job = (struct worker_job){.run = on_run, .done = on_done};
	q->kind = kind;
	q->owner = r;
	q->account = r->account;
	q->pid = pid;
	q->proc = r->proc;
	q->clock = r->clock;
	q->made_ns = r->clock.mono_ns();
	r->stats.made++;
}

static bool submit(struct requests *r, struct request *q, enum worker_priority priority, bool *ret_late)
{
	if (refusals_take(r, q, ret_late) && r->pool.submit(r->pool.data, &q->job, priority) == 0)
		return true;
	r->stats.refused++;
	return false;
}

static enum request_result later(struct requests *r, struct request *q)
{
	r->stats.late++;
	late_add(r, q);
	return REQUEST_LATER;
}

enum request_result requests_make(struct requests *r, struct request *q, const struct request_kind *kind,
				  uint32_t pid)
{
	bool any_late;

	prepare(r, q, kind, pid);
	do {
		if (!submit(r, q, WORKER_HIGH, &any_late))
			return REQUEST_REFUSED;
		if (any_late || !await(r, q))
			return later(r, q);
	} while (kind->again && kind->again(q));
	return REQUEST_DONE;
}

bool requests_begin(struct requests *r, struct request *q, const struct request_kind *kind, uint32_t pid)
{
	bool any_late;

	prepare(r, q, kind, pid);
	return submit(r, q, WORKER_LOW, &any_late);
}

enum request_result requests_wait(struct requests *r, struct request *q)
{
	return await(r, q) ? REQUEST_DONE : later(r, q);
}

static bool timed_out(const struct request *q, uint64_t now)
{
	uint64_t began = __atomic_load_n(&q->began_ns, __ATOMIC_ACQUIRE);

	return began ? now > began + REQUEST_TIMEOUT_NS : now > q->made_ns + REQUEST_QUEUE_TIMEOUT_NS;
}

static void give_up(struct requests *r, struct request *q)
{
	q->given_up = true;
	r->stats.pending--;
	r->stats.given_up++;
	log_warn("process %u: %s takes longer than 2 s: a file system, or what backs its memory, does not "
		 "answer; given up",
		 q->pid, q->kind->what);
	if (q->kind->give_up)
		q->kind->give_up(q);
}

void requests_check(struct requests *r)
{
	uint64_t now = r->clock.mono_ns();
	bool any = true;

	r->pool.check(r->pool.data, REPLACE_NS);
	while (any) { /* give_up may make another request */
		any = false;
		for (struct request *q = r->late; q && !any; q = q->next) {
			any = !q->given_up && timed_out(q, now);
			if (any)
				give_up(r, q);
		}
	}
}

void requests_drain(struct requests *r, uint64_t timeout_ns)
{
	r->pool.drain(r->pool.data, timeout_ns);
}

uint64_t *requests_charge(struct requests *r, uint64_t *account)
{
	uint64_t *former = r->account;

	r->account = account;
	return former;
}

unsigned requests_pending(const struct requests *r)
{
	return r->stats.pending;
}

bool requests_about(const struct requests *r, uint32_t pid)
{
	for (const struct request *q = r->late; q; q = q->next)
		if (q->pid == pid && !q->given_up)
			return true;
	return false;
}

void requests_stats(const struct requests *r, struct requests_stats *ret)
{
	*ret = r->stats;
}
