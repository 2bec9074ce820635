// SPDX-License-Identifier: Apache-2.0
/*
 * The exporter's disk. A request is written before it leaves the queue and removed after it was delivered or
 * refused. So a kill at any time loses nothing that was stored, and sends at most one request twice.
 */
#include "otlp/exporter_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/clock.h"

#define WRITE_AGAIN_NS (10 * NS_PER_SEC) /* after a failed write; requests stay in the queue meanwhile */
#define REPLAY_GAP_NS (50 * NS_PER_MS)	 /* 20 requests a second, many times what an agent produces */

/* With the lock held: copies the spool's counters, and reports what was dropped. */
static void take_counts(struct otlp_exporter *e)
{
	uint64_t full = e->spooled.requests.full, damaged = e->spooled.requests.damaged;

	otlp_spool_stats(e->spool, &e->spooled);
	otlp_queue_sync(&e->queue, &e->spooled);
	if (e->spooled.requests.full > full)
		exporter_say_once(e, OTLP_EVENT_SPOOL_DROPPED, "it is full, the oldest requests go");
	if (e->spooled.requests.damaged > damaged)
		exporter_say_once(e, OTLP_EVENT_SPOOL_DROPPED, "a request on disk was damaged");
}

static void say_error(struct otlp_exporter *e, const char *what, int error)
{
	char text[256];

	snprintf(text, sizeof text, "%s: %s", what, strerror(-error));
	exporter_say_once(e, OTLP_EVENT_SPOOL_FAILED, text);
}

int exporter_spool_start(struct otlp_exporter *e, const char *path, uint64_t max_bytes)
{
	int r = otlp_spool_open(&e->spool, path, max_bytes);

	if (r == -ENOMEM)
		return r;
	if (r < 0) { /* profiling goes on when the disk is full or read-only */
		say_error(e, r == -EBUSY ? "another agent uses the folder" : "cannot use the folder", r);
		return 0;
	}
	take_counts(e);
	if (e->spooled.requests.held)
		exporter_say(e, OTLP_EVENT_SPOOL_RECOVERED, "");
	return 0;
}

bool exporter_spool_wanted(const struct otlp_exporter *e, uint64_t now)
{
	return e->spool && (e->away || e->spooled.requests.held) && now >= e->spool_not_before_ns;
}

void exporter_spool_store(struct otlp_exporter *e, struct otlp_request *r)
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
		say_error(e, "cannot write", result);
	}
	pthread_mutex_unlock(&e->lock);
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

	exporter_halve(r, o, halves);
	pthread_mutex_lock(&e->lock);
	take_counts(e);
	if (is_final(o)) {
		e->replaying = NULL;
		e->replay_not_before_ns = clock_mono_ns() + REPLAY_GAP_NS;
	}
	if (removed < 0)
		say_error(e, "cannot remove what was delivered", removed);
	exporter_settle(e, r, o, halves);
	pthread_cond_broadcast(&e->changed);
	pthread_mutex_unlock(&e->lock);
}

void exporter_spool_replay(struct otlp_exporter *e)
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
		exporter_doubt(e, e->replaying, &o);
		pthread_mutex_unlock(&e->lock);
		return;
	}
	if (r != -ENOENT) { /* out of memory or descriptors */
		e->replay_not_before_ns = clock_mono_ns() + NS_PER_SEC;
		say_error(e, "cannot read", r);
	}
	pthread_cond_broadcast(&e->changed);
	pthread_mutex_unlock(&e->lock);
}

void exporter_spool_stop(struct otlp_exporter *e)
{
	struct otlp_request *first;

	if (!e->spool)
		return;
	while ((first = e->queue.first)) {
		exporter_spool_store(e, first);
		if (e->queue.first == first)
			break;
	}
}
