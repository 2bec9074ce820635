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
 */
#include "otlp/exporter_private.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "agent/base/clock.h"
#include "agent/base/thread.h"
#include "otlp/compress.h"

enum step { STEP_SEND, STEP_CODE, STEP_STORE, STEP_REPLAY, STEP_WAIT, STEP_END };

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
	if (first && first != uncoded && exporter_spool_wanted(e, now))
		return take(first, STEP_STORE, ret);
	if (on_disk && now >= due)
		return STEP_REPLAY;
	if (!on_disk && first && first != uncoded && now >= due)
		return take(first, STEP_SEND, ret);
	if (uncoded)
		return take(uncoded, STEP_CODE, ret);
	*ret_until = first || on_disk ? due : UINT64_MAX;
	if (e->stopping && e->stop_deadline_ns < *ret_until)
		*ret_until = e->stop_deadline_ns;
	return STEP_WAIT;
}

static void compress_request(struct otlp_exporter *e, struct otlp_request *r)
{
	_cleanup_buf_ struct buf coded = {0};
	int result;

	result = otlp_compress(e->coding, r->data.data, r->data.len, &coded);
	pthread_mutex_lock(&e->lock);
	if (result < 0)
		r->uncodable = true;
	else
		otlp_queue_recode(&e->queue, r, &coded, e->coding);
	r->busy = false;
	pthread_mutex_unlock(&e->lock);
}

static void send_request(struct otlp_exporter *e, struct otlp_request *r)
{
	struct otlp_request *halves[2];
	struct otlp_outcome o = {0};
	int result;

	r->attempts++;
	result = otlp_client_send(e->client, r, e->cancel_fd, &o);
	if (result < 0 && result != -ECANCELED) {
		o = (struct otlp_outcome){.verdict = OTLP_RETRY};
		memcpy(o.text, "out of memory", sizeof "out of memory");
	}
	exporter_halve(r, &o, halves);
	pthread_mutex_lock(&e->lock);
	if (result == -ECANCELED) {
		r->busy = false; /* the stop that cancelled the attempt counts the request */
		exporter_doubt(e, r, &o);
	} else {
		exporter_settle(e, r, &o, halves);
	}
	pthread_cond_broadcast(&e->changed);
	pthread_mutex_unlock(&e->lock);
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
		step = next_step(e, &r, &until);
		if (step == STEP_END) {
			e->ended = true;
			pthread_cond_broadcast(&e->changed);
		}
		pthread_mutex_unlock(&e->lock);
		if (step == STEP_CODE)
			compress_request(e, r);
		else if (step == STEP_SEND)
			send_request(e, r);
		else if (step == STEP_STORE)
			exporter_spool_store(e, r);
		else if (step == STEP_REPLAY)
			exporter_spool_replay(e);
		else if (step == STEP_WAIT)
			wait_for_work(e, until);
	} while (step != STEP_END);
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

	pthread_mutex_init(&e->lock, NULL);
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
	r = opt->spool_path ? exporter_spool_start(e, opt->spool_path, opt->spool_max_bytes) : 0;
	if (r < 0)
		return r;
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
	pthread_mutex_unlock(&e->lock);
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

int otlp_exporter_stop(struct otlp_exporter *e, uint64_t deadline_mono_ns)
{
	const struct timespec deadline = timespec_of(deadline_mono_ns);
	int r = 0;

	if (e->joined)
		return 0;
	pthread_mutex_lock(&e->lock);
	e->stopping = true;
	e->stop_deadline_ns = deadline_mono_ns;
	hurry(e);
	while (!e->ended && !r)
		r = pthread_cond_timedwait(&e->changed, &e->lock, &deadline);
	pthread_mutex_unlock(&e->lock);
	(void)eventfd_write(e->cancel_fd, 1);
	pthread_join(e->thread, NULL);
	e->joined = true;
	exporter_spool_stop(e);
	pthread_mutex_lock(&e->lock);
	r = any_left(e) ? -ETIMEDOUT : 0;
	while (e->queue.first)
		otlp_queue_drop(&e->queue, e->queue.first, OTLP_DROP_SHUTDOWN);
	pthread_mutex_unlock(&e->lock);
	return r;
}

void otlp_exporter_stats(struct otlp_exporter *e, struct otlp_exporter_stats *ret)
{
	pthread_mutex_lock(&e->lock);
	*ret = (struct otlp_exporter_stats){
		.samples = e->queue.samples,
		.requests = e->queue.requests,
		.queued_bytes = e->queue.bytes,
		.spooled_bytes = e->spooled.bytes,
		.spool_failures = e->spooled.failures,
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
