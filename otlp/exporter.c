// SPDX-License-Identifier: Apache-2.0
/*
 * The thread does one step at a time, chosen under the lock: deliver the oldest request if its time has come;
 * else compress a request that is not compressed yet, so that the queue has room for more while the Collector
 * is away; else wait. A request that the thread works on stays in the queue and is marked busy, so it is
 * counted as queued and is not dropped.
 *
 * With a spool, requests go to disk before they are sent while the Collector is away, and as long as there
 * are older ones on disk. So requests in memory are never older than those on disk, and all are delivered
 * in order.
 *
 * On disk, a request is written before it leaves the queue and removed after it was delivered or refused. So
 * a kill at any time loses nothing that was stored, and sends at most one request twice.
 *
 * Two agents of one node have the same folder while the new one takes over: the new one keeps its requests in
 * memory until the old one has ended, and then has its requests on disk, too.
 */
#include "otlp/exporter.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>

#include "agent/base/clock.h"
#include "agent/base/thread.h"
#include "agent/base/urgency.h"
#include "otlp/compress.h"
#include "otlp/halve.h"
#include "otlp/spool_folder.h"

#define SAME_TEXT_NS (300 * NS_PER_SEC) /* a repeated refusal is reported again after this time */
#define HALVINGS_MAX 6 /* 3.5 MiB down to 56 KiB; a server with a lower limit accepts nothing */
#define WRITE_AGAIN_NS (10 * NS_PER_SEC) /* after a failed write; requests stay in the queue meanwhile */
#define LOCK_WAIT_NS \
	NS_PER_SEC /* at the start: the processes of an agent that was killed may be about to end */
#define OPEN_AGAIN_NS (500 * NS_PER_MS) /* while another agent has the spool's folder */
#define REPLAY_GAP_NS (50 * NS_PER_MS)	/* 20 requests a second, many times what an agent produces */

struct otlp_exporter {
	struct otlp_client *client; /* used by the export thread only, after otlp_exporter_new */
	enum otlp_coding coding;
	int wake_fd;   /* readable: look at the queue again */
	int cancel_fd; /* readable, and remains so: cancel the current attempt */
	pthread_t thread;
	bool joined; /* used by the caller's thread only */
	void (*publish)(const struct otlp_exporter_stats *now, void *data);
	void *publish_data;

	pthread_mutex_t lock;
	pthread_cond_t changed; /* a request left the queue, or the thread ended */
	struct otlp_queue queue;
	struct otlp_events events;
	uint64_t not_before_ns; /* monotonic; no attempt before this time */
	uint32_t n_failures;	/* consecutive failures */
	uint64_t away_since_ns; /* monotonic */
	bool away, stopping, ended;
	uint64_t stop_deadline_ns;
	uint64_t raw_bytes, wire_bytes, n_attempts, n_retries, n_splits, n_unanswered, cpu_ns;
	uint64_t n_failed[OTLP_N_FAILURES];
	struct otlp_outcome last;

	/* The disk. Used by the export thread only, except `spooled`, which is under the lock. */
	struct otlp_spool *spool; /* NULL: none */
	char *spool_path;
	uint64_t spool_max_bytes;
	uint64_t open_again_ns;		/* monotonic; when another agent may have left the folder; 0: never */
	struct otlp_request *replaying; /* the oldest request on disk, while it is being delivered */
	struct otlp_spool_stats spooled; /* as of the last step */
	uint64_t spool_not_before_ns;	 /* no write before this time, because the last one failed */
	/* Limits the rate at which the Collector gets requests from the disk when it is back. */
	uint64_t replay_not_before_ns;

	struct {
		uint64_t since_ns;
		char text[OTLP_OUTCOME_TEXT_MAX];
	} last_texts[OTLP_N_EVENTS]; /* the last text of each kind of event that is not repeated */
};

/* --- numbers */

/* With the lock held. */
static void read_stats(const struct otlp_exporter *e, struct otlp_exporter_stats *ret)
{
	*ret = (struct otlp_exporter_stats){
		.samples = e->queue.samples,
		.requests = e->queue.requests,
		.queued_bytes = e->queue.bytes,
		.spooled_bytes = e->spooled.bytes,
		.spool_failures = e->spooled.failures,
		.spool_foreign = e->spooled.foreign,
		.exported_raw_bytes = e->raw_bytes,
		.exported_wire_bytes = e->wire_bytes,
		.attempts = e->n_attempts,
		.retries = e->n_retries,
		.unanswered_samples = e->n_unanswered,
		.splits = e->n_splits,
		.events_lost = e->events.n_lost,
		.cpu_ns = e->cpu_ns,
		.away = e->away,
		.last = e->last,
	};
	memcpy(ret->failures, e->n_failed, sizeof ret->failures);
}

/* Gives back the lock after the numbers may have changed. */
static void release(struct otlp_exporter *e)
{
	struct otlp_exporter_stats now;

	if (e->publish) {
		read_stats(e, &now);
		e->publish(&now, e->publish_data);
	}
	pthread_mutex_unlock(&e->lock);
}

/* --- answers */

/* With the lock held: puts an event. */
static void put_event(struct otlp_exporter *e, enum otlp_event_kind kind, const char *text)
{
	otlp_events_put(&e->events, kind, text, e->queue.requests.queued + e->spooled.requests.held);
}

/* With the lock held: puts an event, unless it repeats the last one of its kind. */
static void put_event_once(struct otlp_exporter *e, enum otlp_event_kind kind, const char *text)
{
	uint64_t now = clock_mono_ns();

	if (e->last_texts[kind].since_ns && now - e->last_texts[kind].since_ns < SAME_TEXT_NS &&
	    !strcmp(e->last_texts[kind].text, text))
		return;
	e->last_texts[kind].since_ns = now;
	memcpy(e->last_texts[kind].text, text, strlen(text) + 1);
	put_event(e, kind, text);
}

static void now_back(struct otlp_exporter *e)
{
	e->n_failures = 0;
	e->not_before_ns = 0;
	if (!e->away)
		return;
	e->away = false;
	put_event(e, OTLP_EVENT_BACK, "");
}

static void settle_accepted(struct otlp_exporter *e, struct otlp_request *r, const struct otlp_outcome *o)
{
	uint64_t rejected = o->rejected_profiles < r->n_profiles ? o->rejected_profiles : r->n_profiles;

	now_back(e);
	e->raw_bytes += r->raw_bytes;
	e->wire_bytes += r->data.len;
	if (o->text[0])
		put_event_once(e, OTLP_EVENT_PARTIAL, o->text);
	/*
	 * The answer has a number of profiles, but not which: count their share of the samples, rounded up.
	 */
	otlp_queue_exported(&e->queue, r,
			    r->n_profiles ? (r->n_samples * rejected + r->n_profiles - 1) / r->n_profiles
					  : 0);
}

/* Without the lock: divides a request that was too large. NULLs: it cannot be divided. */
static void divide(const struct otlp_request *r, const struct otlp_outcome *o,
		   struct otlp_request *ret_halves[2])
{
	ret_halves[0] = ret_halves[1] = NULL;
	if (o->verdict != OTLP_TOO_LARGE || r->halvings >= HALVINGS_MAX ||
	    otlp_request_halve(r, ret_halves) < 0)
		return;
	ret_halves[0]->halvings = ret_halves[1]->halvings = r->halvings + 1;
}

static void settle_refused(struct otlp_exporter *e, struct otlp_request *r, const struct otlp_outcome *o)
{
	now_back(e);
	put_event_once(e, OTLP_EVENT_REJECTED, o->text);
	otlp_queue_drop(&e->queue, r,
			o->verdict == OTLP_TOO_LARGE ? OTLP_DROP_TOO_LARGE : OTLP_DROP_REJECTED);
}

/* The request remains the oldest one; it is dropped only when the queue is full. */
static void settle_later(struct otlp_exporter *e, struct otlp_request *r, const struct otlp_outcome *o)
{
	uint32_t random = 0;
	uint64_t delay;

	(void)!getrandom(&random, sizeof random, GRND_NONBLOCK);
	r->busy = false;
	e->n_retries++;
	e->n_failed[o->failure]++;
	if (o->verdict == OTLP_RETRY_NOW && !r->resent) {
		r->resent = true;
		return;
	}
	r->resent = false;
	delay = otlp_backoff_ns(e->n_failures++, random);
	/* Wait at least as long as the server says, and spread the attempts of many agents. */
	if (o->has_delay)
		delay = o->delay_ns + (o->delay_ns / 10 >> 16) * (random >> 16);
	e->not_before_ns = clock_mono_ns() + delay;
	if (e->away)
		return;
	e->away = true;
	e->away_since_ns = clock_mono_ns();
	put_event(e, OTLP_EVENT_AWAY, o->text);
}

/* With the lock held: counts the samples of an attempt without an answer, which the server may have taken. */
static void count_unanswered(struct otlp_exporter *e, const struct otlp_request *r,
			     const struct otlp_outcome *o)
{
	if (o->unanswered)
		e->n_unanswered += r->n_samples;
}

/*
 * With the lock held: does what the answer requires, and frees the request unless it is to be sent again. If
 * it was too large, `halves` (NULLs: none; ownership moves) replace it.
 */
static void settle(struct otlp_exporter *e, struct otlp_request *r, const struct otlp_outcome *o,
		   struct otlp_request *halves[2])
{
	e->last = *o;
	e->n_attempts++;
	count_unanswered(e, r, o);
	switch (o->verdict) {
	case OTLP_ACCEPTED:
		settle_accepted(e, r, o);
		break;
	case OTLP_REJECTED:
	case OTLP_TOO_LARGE:
		if (!halves[0]) {
			settle_refused(e, r, o);
			break;
		}
		now_back(e);
		e->n_splits++;
		otlp_queue_split(&e->queue, r, halves);
		break;
	default:
		settle_later(e, r, o);
	}
}

/* --- the disk */

/* With the lock held: copies the spool's counters, and reports what was dropped. */
static void take_counts(struct otlp_exporter *e)
{
	uint64_t full = e->spooled.requests.full, damaged = e->spooled.requests.damaged;

	otlp_spool_stats(e->spool, &e->spooled);
	otlp_queue_sync(&e->queue, &e->spooled);
	if (e->spooled.requests.full > full)
		put_event_once(e, OTLP_EVENT_SPOOL_DROPPED, "it is full, the oldest requests go");
	if (e->spooled.requests.damaged > damaged)
		put_event_once(e, OTLP_EVENT_SPOOL_DROPPED, "a request on disk was damaged");
}

static void report_error(struct otlp_exporter *e, const char *what, int error)
{
	const char *why = spool_folder_error(error);
	char text[256];

	snprintf(text, sizeof text, "%s: %s", what, why ? why : strerror(-error));
	put_event_once(e, OTLP_EVENT_SPOOL_FAILED, text);
}

/* With the lock held. */
static void spool_opened(struct otlp_exporter *e, bool waited)
{
	take_counts(e);
	if (e->spooled.foreign)
		put_event(e, OTLP_EVENT_SPOOL_DROPPED,
			  "its folder has entries that are not the agent's; they are ignored");
	if (e->spooled.requests.held || waited)
		put_event(e, OTLP_EVENT_SPOOL_RECOVERED, "");
}

/*
 * Opens the spool, or puts an event that says why it cannot: profiling goes on when the disk is full or
 * read-only. -ENOMEM, or 0.
 */
static int spool_open(struct otlp_exporter *e, uint64_t wait_ns)
{
	struct otlp_spool *spool = NULL;
	int r = otlp_spool_open(&spool, e->spool_path, e->spool_max_bytes, wait_ns);
	bool waited;

	pthread_mutex_lock(&e->lock);
	waited = e->open_again_ns != 0;
	e->spool = spool;
	e->open_again_ns = r == -EBUSY || r == -ENOMEM ? clock_mono_ns() + OPEN_AGAIN_NS : 0;
	if (r == 0)
		spool_opened(e, waited);
	else if (r == -EBUSY)
		put_event_once(e, OTLP_EVENT_SPOOL_BUSY, "");
	else
		report_error(e, "cannot use the folder", r);
	release(e);
	return r == -ENOMEM ? r : 0;
}

static int spool_start(struct otlp_exporter *e, const char *path, uint64_t max_bytes)
{
	e->spool_path = strdup(path);
	e->spool_max_bytes = max_bytes;
	return e->spool_path ? spool_open(e, LOCK_WAIT_NS) : -ENOMEM;
}

/* With the lock held: whether requests in the queue must go to disk before they are sent. */
static bool spool_wanted(const struct otlp_exporter *e, uint64_t now)
{
	return e->spool && (e->away || e->spooled.requests.held) && now >= e->spool_not_before_ns;
}

/* Without the lock: moves the oldest request of the queue, which is busy, to the disk. */
static void spool_store(struct otlp_exporter *e, struct otlp_request *r)
{
	uint64_t full = e->spooled.requests.full;
	int result = otlp_spool_put(e->spool, r);

	pthread_mutex_lock(&e->lock);
	take_counts(e);
	if (e->spooled.requests.full > full) { /* the request that is being sent may have been dropped */
		otlp_request_free(e->replaying);
		e->replaying = NULL;
	}
	if (result == 0) {
		otlp_queue_stored(&e->queue, r);
	} else {
		r->busy = false;
		e->spool_not_before_ns = clock_mono_ns() + WRITE_AGAIN_NS;
		report_error(e, "cannot write", result);
	}
	release(e);
}

static bool is_final(const struct otlp_outcome *o)
{
	return o->verdict != OTLP_RETRY && o->verdict != OTLP_RETRY_NOW;
}

/*
 * Does what the answer to the request from the disk requires; removes it from the disk unless it must be
 * sent again.
 */
static void settle_replayed(struct otlp_exporter *e, const struct otlp_outcome *o)
{
	struct otlp_request *r = e->replaying;
	struct otlp_request *halves[2];
	int removed = is_final(o) ? otlp_spool_remove(e->spool) : 0;

	divide(r, o, halves);
	pthread_mutex_lock(&e->lock);
	take_counts(e);
	if (is_final(o)) {
		e->replaying = NULL;
		e->replay_not_before_ns = clock_mono_ns() + REPLAY_GAP_NS;
	}
	if (removed < 0)
		report_error(e, "cannot remove what was delivered", removed);
	settle(e, r, o, halves);
	pthread_cond_broadcast(&e->changed);
	release(e);
}

/* Without the lock: sends the oldest request on disk. */
static void spool_replay(struct otlp_exporter *e)
{
	struct otlp_outcome o = {0};
	int r = e->replaying ? 0 : otlp_spool_oldest(e->spool, &e->replaying);

	if (r == 0) {
		e->replaying->from_spool = true;
		e->replaying->attempts++;
		r = otlp_client_send(e->client, e->replaying, e->cancel_fd, &o);
		if (r == 0)
			settle_replayed(e, &o);
		if (r == 0)
			return;
	}
	pthread_mutex_lock(&e->lock);
	take_counts(e);
	if (r == -ECANCELED) {
		count_unanswered(e, e->replaying, &o);
		release(e);
		return;
	}
	if (r != -ENOENT) { /* out of memory or descriptors */
		e->replay_not_before_ns = clock_mono_ns() + NS_PER_SEC;
		report_error(e, "cannot read", r);
	}
	pthread_cond_broadcast(&e->changed);
	release(e);
}

/* After the thread has ended: moves requests from the queue to the disk, until the disk is full. */
static void spool_stop(struct otlp_exporter *e)
{
	struct otlp_request *first;

	if (!e->spool)
		return;
	while ((first = e->queue.first)) {
		spool_store(e, first);
		if (e->queue.first == first)
			break;
	}
}

/* --- the thread */

enum step { STEP_SEND, STEP_CODE, STEP_OPEN, STEP_STORE, STEP_REPLAY, STEP_WAIT, STEP_END };

static struct otlp_request *first_uncoded(const struct otlp_exporter *e)
{
	if (e->coding == OTLP_IDENTITY)
		return NULL;
	for (struct otlp_request *r = e->queue.first; r; r = r->next)
		if (r->coding == OTLP_IDENTITY && !r->uncodable)
			return r;
	return NULL;
}

static enum step take(struct otlp_request *r, enum step step, struct otlp_request **ret)
{
	r->busy = true;
	*ret = r;
	return step;
}

/*
 * Chooses the next step. *ret is then busy, except for STEP_REPLAY; *ret_until limits how long
 * STEP_WAIT waits.
 */
static enum step next_step(struct otlp_exporter *e, struct otlp_request **ret, uint64_t *ret_until)
{
	struct otlp_request *first = e->queue.first, *uncoded = first_uncoded(e);
	bool on_disk = e->spooled.requests.held > 0;
	uint64_t now = clock_mono_ns(), due = on_disk ? e->replay_not_before_ns : 0;

	if (e->not_before_ns > due)
		due = e->not_before_ns;
	if (e->stopping && ((!first && !on_disk) || now >= e->stop_deadline_ns))
		return STEP_END;
	if (e->open_again_ns && now >= e->open_again_ns)
		return STEP_OPEN;
	if (first && first != uncoded && spool_wanted(e, now))
		return take(first, STEP_STORE, ret);
	if (on_disk && now >= due)
		return STEP_REPLAY;
	if (!on_disk && first && first != uncoded && now >= due)
		return take(first, STEP_SEND, ret);
	if (uncoded)
		return take(uncoded, STEP_CODE, ret);
	*ret_until = first || on_disk ? due : UINT64_MAX;
	if (e->open_again_ns && e->open_again_ns < *ret_until)
		*ret_until = e->open_again_ns;
	if (e->stopping && e->stop_deadline_ns < *ret_until)
		*ret_until = e->stop_deadline_ns;
	return STEP_WAIT;
}

static void compress_request(struct otlp_exporter *e, struct otlp_request *r)
{
	_cleanup_buf_ struct buf coded = {0};
	int result;

	result = otlp_compress(e->coding, r->data.data, r->data.len, &coded);
	buf_trim(&coded); /* it may wait for long, and counts with what it holds */
	pthread_mutex_lock(&e->lock);
	if (result < 0)
		r->uncodable = true;
	else
		otlp_queue_recode(&e->queue, r, &coded, e->coding);
	r->busy = false;
	release(e);
}

static void send_request(struct otlp_exporter *e, struct otlp_request *r)
{
	struct otlp_request *halves[2];
	struct otlp_outcome o = {0};
	int result;

	r->attempts++;
	result = otlp_client_send(e->client, r, e->cancel_fd, &o);
	if (result < 0 && result != -ECANCELED) {
		o = (struct otlp_outcome){.verdict = OTLP_RETRY, .failure = OTLP_FAILURE_MEMORY};
		memcpy(o.text, "out of memory", sizeof "out of memory");
	}
	divide(r, &o, halves);
	pthread_mutex_lock(&e->lock);
	if (result == -ECANCELED) {
		r->busy = false; /* the stop that cancelled the attempt counts the request */
		count_unanswered(e, r, &o);
	} else {
		settle(e, r, &o, halves);
	}
	pthread_cond_broadcast(&e->changed);
	release(e);
}

/* Waits until the thread is woken, the time has come, or the idle connection is readable. */
static void wait_for_work(struct otlp_exporter *e, uint64_t until)
{
	struct pollfd fds[2] = {{.fd = e->wake_fd, .events = POLLIN}};
	uint64_t now = clock_mono_ns(), left = until > now ? until - now : 0;
	struct timespec timeout = {(time_t)(left / NS_PER_SEC), (long)(left % NS_PER_SEC)};
	eventfd_t ignored;

	fds[1].fd = otlp_client_fd(e->client, &fds[1].events);
	if (ppoll(fds, 2, until == UINT64_MAX ? NULL : &timeout, NULL) <= 0)
		return;
	if (fds[0].revents)
		(void)eventfd_read(e->wake_fd, &ignored);
	if (fds[1].revents)
		otlp_client_idle(e->client);
}

static void *run(void *data)
{
	struct otlp_exporter *e = data;
	struct otlp_request *r = NULL;
	uint64_t until = 0;
	enum step step;

	thread_begin(THREAD_NETWORK);
	do {
		pthread_mutex_lock(&e->lock);
		e->cpu_ns = clock_thread_cpu_ns();
		if (e->stopping)
			urgency_check(URGENCY_READING);
		step = next_step(e, &r, &until);
		if (step == STEP_END) {
			e->ended = true;
			pthread_cond_broadcast(&e->changed);
		}
		release(e);
		if (step == STEP_CODE)
			compress_request(e, r);
		else if (step == STEP_SEND)
			send_request(e, r);
		else if (step == STEP_OPEN)
			(void)spool_open(e, 0);
		else if (step == STEP_STORE)
			spool_store(e, r);
		else if (step == STEP_REPLAY)
			spool_replay(e);
		else if (step == STEP_WAIT)
			wait_for_work(e, until);
	} while (step != STEP_END);
	urgency_leave();
	return NULL;
}

static int start_thread(struct otlp_exporter *e)
{
	sigset_t all, old;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&e->thread, NULL, run, e);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	e->joined = r != 0;
	if (!r)
		pthread_setname_np(e->thread, "export");
	return -r;
}

static void init_sync(struct otlp_exporter *e)
{
	pthread_condattr_t attr;

	thread_mutex_init(&e->lock);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&e->changed, &attr);
	pthread_condattr_destroy(&attr);
}

int otlp_exporter_new(struct otlp_exporter **ret, const struct otlp_exporter_options *opt,
		      const char **ret_why)
{
	_cleanup_exporter_ struct otlp_exporter *e = calloc(1, sizeof *e);
	int r;

	if (!e)
		return -ENOMEM;
	e->joined = true;
	e->events.fd = -1;
	e->coding = opt->coding;
	e->publish = opt->publish;
	e->publish_data = opt->publish_data;
	init_sync(e);
	otlp_queue_init(&e->queue, opt->queue_max_bytes);
	e->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	e->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (e->wake_fd < 0 || e->cancel_fd < 0)
		return -errno;
	r = otlp_events_init(&e->events);
	if (r < 0)
		return r;
	r = otlp_client_new(&e->client, &opt->client, ret_why);
	if (r < 0)
		return r;
	r = opt->spool_path ? spool_start(e, opt->spool_path, opt->spool_max_bytes) : 0;
	if (r < 0)
		return r;
	pthread_mutex_lock(&e->lock);
	release(e);
	r = start_thread(e);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(e);
	return 0;
}

void otlp_exporter_free(struct otlp_exporter *e)
{
	if (!e)
		return;
	(void)otlp_exporter_stop(e, 0);
	otlp_client_free(e->client);
	otlp_request_free(e->replaying);
	otlp_spool_close(e->spool);
	free(e->spool_path);
	otlp_queue_fini(&e->queue);
	otlp_events_fini(&e->events);
	if (e->wake_fd >= 0)
		close(e->wake_fd);
	if (e->cancel_fd >= 0)
		close(e->cancel_fd);
	pthread_cond_destroy(&e->changed);
	pthread_mutex_destroy(&e->lock);
	free(e);
}

void otlp_exporter_submit(struct otlp_exporter *e, struct otlp_request *request)
{
	pthread_mutex_lock(&e->lock);
	if (e->stopping)
		otlp_queue_refuse(&e->queue, request, OTLP_DROP_SHUTDOWN);
	else
		otlp_queue_put(&e->queue, request);
	release(e);
	(void)eventfd_write(e->wake_fd, 1);
}

static struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){(time_t)(ns / NS_PER_SEC), (long)(ns % NS_PER_SEC)};
}

/* With the lock held. The next attempt is made at once, whatever the back-off says. */
static void hurry(struct otlp_exporter *e)
{
	e->not_before_ns = 0;
	e->n_failures = 0;
	(void)eventfd_write(e->wake_fd, 1);
}

static bool any_left(const struct otlp_exporter *e)
{
	return e->queue.first || e->spooled.requests.held;
}

int otlp_exporter_flush(struct otlp_exporter *e, uint64_t deadline_mono_ns)
{
	const struct timespec deadline = timespec_of(deadline_mono_ns);
	bool empty;
	int r = 0;

	pthread_mutex_lock(&e->lock);
	hurry(e);
	while (any_left(e) && !e->ended && !r)
		r = pthread_cond_timedwait(&e->changed, &e->lock, &deadline);
	empty = !any_left(e);
	pthread_mutex_unlock(&e->lock);
	return empty ? 0 : -ETIMEDOUT;
}

/* With the lock held: whether requests that are not delivered can go to disk. */
static bool spool_works(const struct otlp_exporter *e)
{
	return e->spool && clock_mono_ns() >= e->spool_not_before_ns;
}

/*
 * With the lock held: waits until the thread has ended, the deadline has passed, or the Collector is away for
 * too long: with a spool, once it has not answered an attempt. It may be away at first and back after the
 * next attempt, or the other way round.
 */
static void wait_for_end(struct otlp_exporter *e, uint64_t deadline_mono_ns)
{
	const uint64_t begin = clock_mono_ns(), n_failed = e->n_retries;

	while (!e->ended && !(e->away && spool_works(e) && e->n_retries > n_failed)) {
		uint64_t since = e->away_since_ns > begin ? e->away_since_ns : begin,
			 patience = spool_works(e) ? OTLP_STOP_SPOOL_NS : OTLP_STOP_AWAY_NS,
			 until = deadline_mono_ns;
		struct timespec deadline;

		if (e->away && since + patience < until)
			until = since + patience;
		deadline = timespec_of(until);
		if (clock_mono_ns() >= until)
			return;
		(void)pthread_cond_timedwait(&e->changed, &e->lock, &deadline);
	}
}

int otlp_exporter_stop(struct otlp_exporter *e, uint64_t deadline_mono_ns)
{
	int r;

	if (e->joined)
		return 0;
	pthread_mutex_lock(&e->lock);
	e->stopping = true;
	e->stop_deadline_ns = deadline_mono_ns;
	hurry(e);
	urgency_give(e->thread);
	wait_for_end(e, deadline_mono_ns);
	e->stop_deadline_ns = 0;
	release(e);
	(void)eventfd_write(e->cancel_fd, 1);
	(void)eventfd_write(e->wake_fd, 1);
	pthread_join(e->thread, NULL);
	e->joined = true;
	spool_stop(e);
	pthread_mutex_lock(&e->lock);
	r = any_left(e) ? -ETIMEDOUT : 0;
	while (e->queue.first)
		otlp_queue_drop(&e->queue, e->queue.first, OTLP_DROP_SHUTDOWN);
	release(e);
	return r;
}

void otlp_exporter_stats(struct otlp_exporter *e, struct otlp_exporter_stats *ret)
{
	pthread_mutex_lock(&e->lock);
	read_stats(e, ret);
	pthread_mutex_unlock(&e->lock);
}

int otlp_exporter_event_fd(const struct otlp_exporter *e)
{
	return e->events.fd;
}

bool otlp_exporter_next_event(struct otlp_exporter *e, struct otlp_event *ret)
{
	bool any;

	pthread_mutex_lock(&e->lock);
	any = otlp_events_next(&e->events, ret);
	pthread_mutex_unlock(&e->lock);
	return any;
}
