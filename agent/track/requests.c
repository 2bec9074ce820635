// SPDX-License-Identifier: Apache-2.0
/*
 * Each request that the main loop no longer waits for is in one list: `late`; `blocked` (late, and its thread
 * was seen asleep); `stuck`; or `parked`, of what it waits for. A blocker is what holds stuck requests: a
 * file system or a process. There are few, each with a blocked thread now or until recently.
 */
#include "agent/track/requests.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sysmacros.h>

#include "agent/base/cleanup.h"
#include "agent/base/log.h"
#include "agent/base/map.h"
#include "agent/base/priority.h"

#define REPLACE_NS (20 * NS_PER_MS) /* after this, another thread takes the place of one that is blocked */
#define QUIET_NS (60 * NS_PER_SEC)  /* after a file system has answered, before the log warns of it again */
#define UNPARK_MAX 8u /* of the requests that a blocker held are made at a time when it answers */
#define SECONDS(ns) ((double)(ns) / NS_PER_SEC)

struct request_list {
	struct request *first, *last;
	unsigned n;
};

/* A process with late requests: another one about it would only wait behind them. */
struct late_process {
	struct map_node node;
	uint32_t pid;
	unsigned n;
};

struct blocker {
	struct blocker *next;
	bool is_device;	  /* else a process */
	uint64_t id;	  /* st_dev, or pid */
	bool blocks;	  /* requests are parked until it answers */
	unsigned n_tried; /* parked requests that are with the threads again */
	unsigned n_stuck;
	struct request_list parked;
	uint64_t since_ns; /* when it was found to block */
	uint64_t retry_at_ns, retry_ns;
	bool reported;
	uint64_t quiet_until_ns;
};

struct requests {
	struct host_clock clock;
	struct proc_view proc;
	struct job_pool pool;
	struct request_list late, blocked, stuck;
	struct map late_processes; /* by pid */
	struct blocker *blockers;
	bool all_blocked;	 /* no thread is left for requests */
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
	map_init(&r->late_processes, SIZE_MAX); /* no more than requests in the queue */
	r->may_wait_ns = REQUEST_WAIT_START_NS;
	r->may_wait_at_ns = r->clock.mono_ns();
	*ret = r;
	return 0;
}

/* --- lists */

static void list_add(struct request_list *l, struct request *q)
{
	q->list = l;
	q->prev = l->last;
	q->next = NULL;
	*(l->last ? &l->last->next : &l->first) = q;
	l->last = q;
	l->n++;
}

static void list_remove(struct request *q)
{
	struct request_list *l = TAKE_PTR(q->list);

	if (!l)
		return;
	*(q->prev ? &q->prev->next : &l->first) = q->next;
	*(q->next ? &q->next->prev : &l->last) = q->prev;
	l->n--;
}

void requests_free(struct requests *r)
{
	struct map_node *n;
	struct blocker *b;

	if (!r)
		return;
	while ((b = r->blockers)) {
		struct request *q;

		while ((q = b->parked.first)) {
			list_remove(q);
			q->kind->free(q);
		}
		r->blockers = b->next;
		free(b);
	}
	map_for_each (&r->late_processes, n, it)
		free(container_of(n, struct late_process, node));
	map_fini(&r->late_processes);
	free(r);
}

/* --- late requests */

static bool is_of_pid(const struct map_node *node, const void *key)
{
	return container_of(node, struct late_process, node)->pid == *(const uint32_t *)key;
}

static struct late_process *late_find(const struct requests *r, uint32_t pid)
{
	struct map_node *n = map_find(&r->late_processes, hash_u64(pid), is_of_pid, &pid);

	return n ? container_of(n, struct late_process, node) : NULL;
}

/* NULL: no memory. The main loop then waits for the next request about the process, too. */
static struct late_process *late_get(struct requests *r, uint32_t pid)
{
	struct late_process *l = late_find(r, pid);

	if (l)
		return l;
	l = calloc(1, sizeof *l);
	if (!l)
		return NULL;
	l->pid = pid;
	if (map_insert(&r->late_processes, &l->node, hash_u64(pid)) < 0) {
		free(l);
		return NULL;
	}
	return l;
}

static void late_add(struct requests *r, struct request *q)
{
	list_add(q->blocked ? &r->blocked : &r->late, q);
	q->late = late_get(r, q->pid);
	if (q->late)
		q->late->n++;
}

/* Takes the request out of whatever list it is in. */
static void late_remove(struct requests *r, struct request *q)
{
	struct late_process *l = TAKE_PTR(q->late);

	list_remove(q);
	if (!l || --l->n)
		return;
	map_remove(&r->late_processes, &l->node);
	free(l);
}

/* --- blockers */

static struct blocker *blocker_find(const struct requests *r, bool is_device, uint64_t id)
{
	struct blocker *b = r->blockers;

	while (b && (b->is_device != is_device || b->id != id))
		b = b->next;
	return b;
}

/* What the request is blocked by, as far as is known. NULL: no memory. */
static struct blocker *blocker_of(struct requests *r, const struct request *q)
{
	uint64_t dev = __atomic_load_n(&q->watch.dev, __ATOMIC_ACQUIRE);
	struct blocker *b = blocker_find(r, dev, dev ?: q->pid);

	if (b)
		return b;
	b = calloc(1, sizeof *b);
	if (!b)
		return NULL;
	b->is_device = dev;
	b->id = dev ?: q->pid;
	b->next = r->blockers;
	r->blockers = b;
	return b;
}

/* False: too many are parked. */
static bool park(struct requests *r, struct blocker *b, struct request *q)
{
	if (r->stats.n_parked == REQUEST_PARKED_MAX)
		return false;
	list_add(&b->parked, q);
	r->stats.parked++;
	r->stats.n_parked++;
	if (q->kind->stuck)
		q->kind->stuck(q);
	return true;
}

/* Says which file systems the request must not access. */
static void refusals_take(const struct requests *r, struct request *q)
{
	q->watch = (struct proc_open_watch){.refused = q->refused};
	for (const struct blocker *b = r->blockers; b; b = b->next)
		if (b->is_device && b->blocks && b != q->tries && q->watch.n_refused < REQUEST_REFUSED_MAX)
			q->refused[q->watch.n_refused++] = b->id;
}

enum begun {
	BEGUN, /* it is with the threads */
	PARKED,
	NO_ROOM,
};

static enum begun begin(struct requests *r, struct request *q, enum worker_priority priority)
{
	struct blocker *b = blocker_find(r, false, q->pid);

	if (b && b->blocks && b != q->tries)
		return park(r, b, q) ? PARKED : NO_ROOM;
	refusals_take(r, q);
	q->began_ns = 0;
	q->blocked = false;
	return r->pool.submit(r->pool.data, &q->job, priority) == 0 ? BEGUN : NO_ROOM;
}

/* Gives a parked request to the threads. False: it stays parked, because their queue is full. */
static bool unpark(struct requests *r, struct blocker *b, struct request *q)
{
	enum begun begun;

	list_remove(q);
	r->stats.n_parked--;
	q->tries = b;
	begun = begin(r, q, WORKER_HIGH);
	if (begun == BEGUN) {
		late_add(r, q);
		b->n_tried++;
		return true;
	}
	q->tries = NULL; /* parked: something else blocks it, too */
	if (begun == NO_ROOM)
		(void)park(r, b, q);
	return begun == PARKED;
}

/* Few at a time: if it does not answer all of them, they do not take all threads. */
static void unpark_some(struct requests *r, struct blocker *b)
{
	while (b->parked.first && b->n_tried < (b->blocks ? 1 : UNPARK_MAX) && unpark(r, b, b->parked.first))
		;
}

static const char *blocker_text(const struct blocker *b, const char *path, char *out, size_t size)
{
	if (!b->is_device)
		snprintf(out, size, "process %" PRIu64, b->id);
	else
		snprintf(out, size, "file system %u:%u%s%s%s", major(b->id), minor(b->id), path ? " (" : "",
			 path ?: "", path ? ")" : "");
	return out;
}

static void answered(struct requests *r, struct blocker *b)
{
	uint64_t now = r->clock.mono_ns();
	char text[64];

	if (!b->blocks)
		return;
	b->blocks = false;
	if (b->reported)
		log_info("%s answers again after %.1f s; %u requests waited for it",
			 blocker_text(b, NULL, text, sizeof text), SECONDS(now - b->since_ns), b->parked.n);
	b->reported = false;
	b->quiet_until_ns = b->is_device ? now + QUIET_NS : 0;
}

/* A parked request that was tried has returned. */
static void try_end(struct requests *r, struct request *q, bool cancelled)
{
	struct blocker *b = TAKE_PTR(q->tries);

	if (!b)
		return;
	b->n_tried--;
	if (cancelled)
		return;
	if (!b->is_device || q->watch.dev == b->id)
		answered(r, b);
	else
		b->retry_at_ns = 0; /* it did not get to the file system: try the next one */
	if (!b->blocks)
		unpark_some(r, b);
}

/* The thread of a stuck request is back. */
static void stuck_end(struct requests *r, struct request *q, bool cancelled)
{
	struct blocker *b = TAKE_PTR(q->blocker);

	if (!b)
		return;
	b->n_stuck--;
	if (cancelled)
		return;
	answered(r, b);
	unpark_some(r, b);
}

/* --- what runs on a thread, and what is done when it is back */

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

static void take_late(struct requests *r, struct request *q)
{
	uint64_t before = r->clock.thread_cpu_ns();
	uint64_t *former = requests_charge(r, q->account);

	q->kind->late(q);
	(void)requests_charge(r, former);
	if (q->account)
		*q->account += q->cpu_ns + r->clock.thread_cpu_ns() - before;
}

static bool is_refused(const struct request *q)
{
	for (unsigned i = 0; i < q->watch.n_refused; i++)
		if (q->watch.refused[i] == q->watch.dev)
			return true;
	return false;
}

bool request_enters(struct request *q, uint64_t dev)
{
	__atomic_store_n(&q->watch.dev, dev, __ATOMIC_RELEASE);
	return !is_refused(q);
}

/* Makes the request once more if it was refused a file system: now, or when that answers. False: not so. */
static bool refused_repeat(struct requests *r, struct request *q)
{
	enum begun begun;
	struct blocker *b;

	if (!q->kind->refused || !is_refused(q) || !q->kind->refused(q))
		return false;
	b = blocker_find(r, true, q->watch.dev);
	if (b && b->blocks)
		begun = park(r, b, q) ? PARKED : NO_ROOM;
	else
		begun = begin(r, q, WORKER_HIGH); /* it has answered meanwhile */
	if (begun == BEGUN)
		late_add(r, q);
	r->stats.refused += begun == NO_ROOM;
	return begun != NO_ROOM;
}

static bool again(struct requests *r, struct request *q)
{
	enum begun begun = q->kind->again && q->kind->again(q) ? begin(r, q, WORKER_HIGH) : NO_ROOM;

	if (begun == BEGUN)
		late_add(r, q);
	return begun != NO_ROOM;
}

static void on_done(struct worker_job *job, bool cancelled)
{
	struct request *q = container_of(job, struct request, job);
	struct requests *r = q->owner;

	late_remove(r, q);
	try_end(r, q, cancelled);
	stuck_end(r, q, cancelled);
	if (!cancelled && (refused_repeat(r, q) || again(r, q)))
		return;
	if (!cancelled && q->kind->late)
		take_late(r, q);
	q->kind->free(q);
}

/* Its thread has been blocked for REPLACE_NS. */
static void on_blocked(struct worker_job *job)
{
	struct request *q = container_of(job, struct request, job);
	struct requests *r = q->owner;

	if (job->costly)
		return;
	q->blocked = true;
	if (q->list != &r->late)
		return;
	list_remove(q);
	list_add(&r->blocked, q);
}

/* --- making requests */

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
	q->job = (struct worker_job){.run = on_run, .done = on_done, .overdue = on_blocked, .urgent = true};
	q->kind = kind;
	q->owner = r;
	q->account = r->account;
	q->pid = pid;
	q->proc = r->proc;
	q->clock = r->clock;
	q->made_ns = r->clock.mono_ns();
	r->stats.made++;
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
	prepare(r, q, kind, pid);
	do {
		enum begun begun = begin(r, q, WORKER_HIGH);

		if (begun == NO_ROOM)
			r->stats.refused++;
		if (begun != BEGUN)
			return begun == PARKED ? REQUEST_LATER : REQUEST_REFUSED;
		if (late_find(r, pid) || !await(r, q))
			return later(r, q);
		if (refused_repeat(r, q))
			return REQUEST_LATER;
	} while (kind->again && kind->again(q));
	return REQUEST_DONE;
}

bool requests_begin(struct requests *r, struct request *q, const struct request_kind *kind, uint32_t pid)
{
	prepare(r, q, kind, pid);
	if (begin(r, q, WORKER_LOW) != NO_ROOM)
		return true;
	r->stats.refused++;
	return false;
}

enum request_result requests_wait(struct requests *r, struct request *q)
{
	if (q->list) /* parked */
		return REQUEST_LATER;
	if (!await(r, q))
		return later(r, q);
	return refused_repeat(r, q) ? REQUEST_LATER : REQUEST_DONE;
}

/* --- what is stuck */

static void report(const struct request *q, struct blocker *b, uint64_t blocked_ns)
{
	char text[512];

	b->reported = true;
	if (b->is_device)
		log_warn("process %u: %s has been blocked for %.1f s: %s does not answer; its files are "
			 "opened when it does",
			 q->pid, q->kind->what, SECONDS(blocked_ns),
			 blocker_text(b, q->path, text, sizeof text));
	else
		log_warn("process %u: %s has been blocked for %.1f s: its memory is locked, or the file "
			 "system behind it does not answer; other requests about it wait",
			 q->pid, q->kind->what, SECONDS(blocked_ns));
}

static void give_up(struct requests *r, struct request *q, uint64_t blocked_ns)
{
	struct blocker *b = blocker_of(r, q);
	uint64_t now = r->clock.mono_ns();

	late_remove(r, q);
	list_add(&r->stuck, q);
	r->stats.given_up++;
	try_end(r, q, true);
	q->blocker = b;
	if (b)
		b->n_stuck++;
	if (b && !b->blocks) {
		b->blocks = true;
		b->since_ns = now - blocked_ns;
		b->retry_ns = REQUEST_RETRY_NS;
		b->retry_at_ns = now + b->retry_ns;
	}
	if (q->kind->stuck)
		q->kind->stuck(q);
}

/* The first request that no thread has begun with; NULL: there is none. */
static const struct request *first_queued(const struct requests *r)
{
	const struct request *q = r->late.first;

	while (q && __atomic_load_n(&q->began_ns, __ATOMIC_ACQUIRE))
		q = q->next;
	return q;
}

static void check_threads(struct requests *r)
{
	const struct request *q = first_queued(r);
	uint64_t blocked_ns = q ? r->pool.blocked_ns(r->pool.data, &q->job) : 0;
	bool before = r->all_blocked;

	r->all_blocked = blocked_ns > REQUEST_BLOCKED_NS;
	if (r->all_blocked && !before)
		log_warn("all %u threads that read processes and their files are blocked; %u requests wait",
			 r->stuck.n + r->blocked.n, r->late.n);
	else if (before && !r->all_blocked)
		log_info("threads that read processes and their files are free again");
}

/* Says so when something has blocked requests for long. */
static void report_long(const struct requests *r, struct blocker *b, uint64_t now)
{
	uint64_t after_ns = b->is_device ? REQUEST_REPORT_FILES_NS : REQUEST_REPORT_PROCESS_NS;
	const struct request *q = r->stuck.first;

	if (b->reported || now - b->since_ns < after_ns || now < b->quiet_until_ns)
		return;
	while (q && q->blocker != b)
		q = q->next;
	if (q)
		report(q, b, now - b->since_ns);
}

/* Tries one of the parked requests. If it is answered, the others follow. */
static void try_parked(struct requests *r, struct blocker *b, uint64_t now)
{
	if (!b->parked.first || b->n_tried || b->n_stuck >= REQUEST_RETRY_THREADS || now < b->retry_at_ns)
		return;
	unpark_some(r, b);
	b->retry_ns = b->retry_ns * 2 < REQUEST_RETRY_MAX_NS ? b->retry_ns * 2 : REQUEST_RETRY_MAX_NS;
	b->retry_at_ns = now + b->retry_ns;
}

static void check_blockers(struct requests *r, uint64_t now)
{
	struct blocker **at = &r->blockers, *b;

	while ((b = *at)) {
		if (b->blocks) {
			report_long(r, b, now);
			try_parked(r, b, now);
		} else {
			unpark_some(r, b);
		}
		if (b->blocks || b->n_tried || b->n_stuck || b->parked.n || now < b->quiet_until_ns) {
			at = &b->next;
			continue;
		}
		*at = b->next;
		free(b);
	}
}

void requests_check(struct requests *r)
{
	uint64_t now = r->clock.mono_ns();
	struct request *q, *next;

	r->pool.check(r->pool.data, REPLACE_NS);
	for (q = r->blocked.first; q; q = next) {
		uint64_t blocked_ns = r->pool.blocked_ns(r->pool.data, &q->job);

		next = q->next;
		if (blocked_ns > REQUEST_BLOCKED_NS)
			give_up(r, q, blocked_ns);
	}
	check_threads(r);
	check_blockers(r, now);
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
	return r->all_blocked ? 0 : r->late.n + r->blocked.n;
}

bool requests_about(const struct requests *r, uint32_t pid)
{
	return late_find(r, pid) != NULL;
}

void requests_stats(const struct requests *r, struct requests_stats *ret)
{
	*ret = r->stats;
	ret->pending = r->late.n + r->blocked.n;
}
