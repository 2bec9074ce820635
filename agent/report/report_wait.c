// SPDX-License-Identifier: Apache-2.0
/*
 * Records that wait to be finished are kept whole, in the order of arrival, for a bounded time and in bounded
 * memory. They are tried again only after something was published. What runs out of time goes out as far as
 * it was walked.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/report/report_private.h"
#include "agent/track/track.h"

#define WAIT_TABLE_NS                                                                                       \
	(10 * NS_PER_SEC) /* a table of a million rows takes 60 ms on a quiet CPU, seconds on one that many \
			     want */
#define WAIT_PROCESS_NS                                                                                     \
	(2500 * NS_PER_MS) /* the side-band is read at once, but a file that it names may take its bound to \
			      be opened (track_ask.h) */

#define RETRY_REST 8 /* times as long as the last tries took, before the next */

struct waiting {
	struct waiting *next;
	uint64_t deadline_ns;
	struct sampled_task task; /* one reference each: it may be over before its tables are there */
	size_t len;
	uint64_t record[]; /* len bytes */
};

struct waiting_list {
	struct waiting *first, **tail;
	size_t n, bytes, max_bytes;
	uint64_t epoch;		   /* of the last try */
	uint64_t next_deadline_ns; /* no earlier one waits */
	uint64_t rest_until_ns;	   /* trying again takes no more than a part of our time */
};

int waiting_new(struct waiting_list **ret, size_t max_bytes)
{
	struct waiting_list *w = calloc(1, sizeof *w);

	if (!w)
		return -ENOMEM;
	w->max_bytes = max_bytes;
	w->tail = &w->first;
	*ret = w;
	return 0;
}

static void waiting_drop(struct waiting *e)
{
	process_unref(e->task.process);
	proc_image_unref(e->task.image);
	free(e);
}

void waiting_free(struct waiting_list *w)
{
	if (!w)
		return;
	for (struct waiting *e = w->first, *next; e; e = next) {
		next = e->next;
		waiting_drop(e);
	}
	free(w);
}

size_t waiting_len(const struct waiting_list *w)
{
	return w->n;
}

/* What is built or looked up by workers takes longer than what the side-band brings. */
static bool waits_for_worker(enum unwind_ending ending)
{
	return ending == ENDING_NO_TABLE || ending == ENDING_UNSUPPORTED_RULE;
}

int waiting_add(struct waiting_list *w, const void *record, size_t len, const struct sample_view *v,
		const struct sampled_task *task)
{
	struct waiting *e;

	if (w->bytes + sizeof *e + len > w->max_bytes)
		return -ENOSPC;
	e = malloc(sizeof *e + len);
	if (!e)
		return -ENOMEM;
	e->next = NULL;
	e->task = *task;
	process_ref(task->process);
	proc_image_ref(task->image);
	e->len = len;
	e->deadline_ns = clock_mono_ns() + (waits_for_worker(v->ending) ? WAIT_TABLE_NS : WAIT_PROCESS_NS);
	memcpy(e->record, record, len);
	if (!w->n || e->deadline_ns < w->next_deadline_ns)
		w->next_deadline_ns = e->deadline_ns;
	*w->tail = e;
	w->tail = &e->next;
	w->n++;
	w->bytes += sizeof *e + len;
	return 0;
}

/* True when the sample has gone into the window. */
static bool settle(struct report *r, struct waiting *e, bool out_of_time)
{
	struct sample_view v, done;
	bool final;

	(void)sample_decode(e->record, e->len, &v); /* it did decode when it came */
	final = track_finish(r->options.track, e->task.process, &v, &done);
	if (!final && waits_for_worker(done.ending) && e->deadline_ns < v.time_ns + WAIT_TABLE_NS)
		e->deadline_ns =
			v.time_ns + WAIT_TABLE_NS; /* process and mapping came, now it is a worker's turn */
	if (!final && !out_of_time)
		return false;
	r->stats.finished += unwind_ending_complete(done.ending);
	r->stats.finish_late += !final;
	report_commit(r, &e->task, &done);
	return true;
}

void waiting_retry(struct report *r, bool last)
{
	struct waiting_list *w = r->waiting;
	uint64_t now = clock_mono_ns(), epoch = track_epoch(r->options.track);
	struct waiting **at = &w->first;

	if (!w->n || (!last && (now < w->rest_until_ns || (epoch == w->epoch && now < w->next_deadline_ns))))
		return;
	w->epoch = epoch;
	w->next_deadline_ns = UINT64_MAX;
	while (*at) {
		struct waiting *e = *at;

		if (settle(r, e, last || now >= e->deadline_ns)) {
			*at = e->next;
			w->n--;
			w->bytes -= sizeof *e + e->len;
			waiting_drop(e);
			continue;
		}
		if (e->deadline_ns < w->next_deadline_ns)
			w->next_deadline_ns = e->deadline_ns;
		at = &e->next;
	}
	w->tail = at;
	w->rest_until_ns = clock_mono_ns() + RETRY_REST * (clock_mono_ns() - now);
}
