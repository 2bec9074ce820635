// SPDX-License-Identifier: Apache-2.0
#include "otlp/queue.h"

void otlp_queue_init(struct otlp_queue *q, size_t max_bytes)
{
	*q = (struct otlp_queue){.max_bytes = max_bytes ? max_bytes : OTLP_QUEUE_MAX_BYTES};
}

void otlp_queue_fini(struct otlp_queue *q)
{
	for (struct otlp_request *r = q->first, *next; r; r = next) {
		next = r->next;
		otlp_request_free(r);
	}
	q->first = q->last = NULL;
}

const char *otlp_drop_name(enum otlp_drop reason)
{
#define X(name, text, help) #text,
	static const char *const names[] = {OTLP_DROP_REASONS(X)};
#undef X

	return names[reason];
}

const char *otlp_drop_help(enum otlp_drop reason)
{
#define X(name, text, help) help,
	static const char *const texts[] = {OTLP_DROP_REASONS(X)};
#undef X

	return texts[reason];
}

static size_t bytes_held(const struct otlp_request *r)
{
	return sizeof *r + r->data.cap;
}

static void unlink_request(struct otlp_queue *q, struct otlp_request *r)
{
	struct otlp_request **p = &q->first, *before = NULL;

	while (*p != r) {
		before = *p;
		p = &before->next;
	}
	*p = r->next;
	if (q->last == r)
		q->last = before;
	q->bytes -= r->held_bytes;
	q->samples.queued -= r->n_samples;
	q->requests.queued--;
}

void otlp_queue_drop(struct otlp_queue *q, struct otlp_request *r, enum otlp_drop reason)
{
	if (!r->from_spool)
		unlink_request(q, r);
	q->samples.dropped[reason] += r->n_samples;
	q->requests.dropped[reason]++;
	otlp_request_free(r);
}

void otlp_queue_refuse(struct otlp_queue *q, struct otlp_request *r, enum otlp_drop reason)
{
	q->samples.submitted += r->n_samples;
	q->requests.submitted++;
	q->samples.dropped[reason] += r->n_samples;
	q->requests.dropped[reason]++;
	otlp_request_free(r);
}

/* Drops the oldest requests until `bytes` more fit or nothing is left to drop. */
static void make_room(struct otlp_queue *q, size_t bytes)
{
	for (struct otlp_request *r = q->first, *next; r && q->bytes + bytes > q->max_bytes; r = next) {
		next = r->next;
		if (!r->busy)
			otlp_queue_drop(q, r, OTLP_DROP_QUEUE_FULL);
	}
}

void otlp_queue_put(struct otlp_queue *q, struct otlp_request *r)
{
	r->held_bytes = bytes_held(r);
	r->next = NULL;
	make_room(q, r->held_bytes);
	if (q->bytes + r->held_bytes > q->max_bytes) {
		otlp_queue_refuse(q, r, OTLP_DROP_QUEUE_FULL);
		return;
	}
	if (q->last)
		q->last->next = r;
	else
		q->first = r;
	q->last = r;
	q->bytes += r->held_bytes;
	q->samples.submitted += r->n_samples;
	q->samples.queued += r->n_samples;
	q->requests.submitted++;
	q->requests.queued++;
}

void otlp_queue_recode(struct otlp_queue *q, struct otlp_request *r, struct buf *data,
		       enum otlp_coding coding)
{
	buf_fini(&r->data);
	r->data = *data;
	*data = (struct buf){0};
	r->coding = coding;
	q->bytes -= r->held_bytes;
	r->held_bytes = bytes_held(r);
	q->bytes += r->held_bytes;
}

void otlp_queue_exported(struct otlp_queue *q, struct otlp_request *r, uint64_t n_partial)
{
	if (n_partial > r->n_samples)
		n_partial = r->n_samples;
	if (!r->from_spool)
		unlink_request(q, r);
	q->samples.dropped[OTLP_DROP_PARTIAL_SUCCESS] += n_partial;
	q->samples.exported += r->n_samples - n_partial;
	q->requests.exported++;
	otlp_request_free(r);
}

void otlp_queue_split(struct otlp_queue *q, struct otlp_request *r, struct otlp_request *halves[2])
{
	struct otlp_request **at = &q->first;

	while (!r->from_spool && *at != r)
		at = &(*at)->next;
	for (int i = 1; i >= 0; i--) {
		struct otlp_request *half = halves[i];

		half->held_bytes = bytes_held(half);
		half->next = *at;
		*at = half;
		if (!half->next)
			q->last = half;
		q->bytes += half->held_bytes;
		q->samples.queued += half->n_samples;
		q->requests.queued++;
	}
	q->requests.submitted++; /* one request became two */
	if (r->from_spool)
		otlp_request_free(r);
	else
		otlp_queue_stored(q, r);
}

void otlp_queue_stored(struct otlp_queue *q, struct otlp_request *r)
{
	unlink_request(q, r);
	otlp_request_free(r);
}

static void sync_count(struct otlp_count *c, const struct otlp_spool_count *spool)
{
	c->recovered = spool->recovered;
	c->spooled = spool->held;
	c->dropped[OTLP_DROP_SPOOL_FULL] = spool->full;
	c->dropped[OTLP_DROP_SPOOL_DAMAGED] = spool->damaged;
}

void otlp_queue_sync(struct otlp_queue *q, const struct otlp_spool_stats *spool)
{
	sync_count(&q->samples, &spool->samples);
	sync_count(&q->requests, &spool->requests);
}
