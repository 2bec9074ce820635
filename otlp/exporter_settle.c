// SPDX-License-Identifier: Apache-2.0
#include "otlp/exporter_private.h"

#include <string.h>
#include <sys/random.h>

#include "agent/base/clock.h"
#include "otlp/halve.h"

#define SAME_TEXT_NS (300 * NS_PER_SEC) /* a repeated refusal is reported again after this time */
#define HALVINGS_MAX 6 /* 3.5 MiB down to 56 KiB; a server with a lower limit accepts nothing */

void exporter_say(struct otlp_exporter *e, enum otlp_event_kind kind, const char *text)
{
	otlp_events_put(&e->events, kind, text, e->queue.requests.queued + e->spooled.requests.held);
}

void exporter_say_once(struct otlp_exporter *e, enum otlp_event_kind kind, const char *text)
{
	uint64_t now = clock_mono_ns();

	if (e->said[kind].since_ns && now - e->said[kind].since_ns < SAME_TEXT_NS &&
	    !strcmp(e->said[kind].text, text))
		return;
	e->said[kind].since_ns = now;
	memcpy(e->said[kind].text, text, strlen(text) + 1);
	exporter_say(e, kind, text);
}

static void now_back(struct otlp_exporter *e)
{
	e->n_failures = 0;
	e->not_before_ns = 0;
	if (!e->away)
		return;
	e->away = false;
	exporter_say(e, OTLP_EVENT_BACK, "");
}

static void settle_accepted(struct otlp_exporter *e, struct otlp_request *r, const struct otlp_outcome *o)
{
	uint64_t rejected = o->rejected_profiles < r->n_profiles ? o->rejected_profiles : r->n_profiles;

	now_back(e);
	e->raw_bytes += r->raw_bytes;
	e->wire_bytes += r->data.len;
	if (o->text[0])
		exporter_say_once(e, OTLP_EVENT_PARTIAL, o->text);
	/*
	 * The answer has a number of profiles, but not which: count their share of the samples, rounded up.
	 */
	otlp_queue_exported(&e->queue, r,
			    r->n_profiles ? (r->n_samples * rejected + r->n_profiles - 1) / r->n_profiles
					  : 0);
}

void exporter_halve(const struct otlp_request *r, const struct otlp_outcome *o,
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
	exporter_say_once(e, OTLP_EVENT_REJECTED, o->text);
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
	exporter_say(e, OTLP_EVENT_AWAY, o->text);
}

void exporter_doubt(struct otlp_exporter *e, const struct otlp_request *r, const struct otlp_outcome *o)
{
	if (o->unanswered)
		e->n_unanswered += r->n_samples;
}

void exporter_settle(struct otlp_exporter *e, struct otlp_request *r, const struct otlp_outcome *o,
		     struct otlp_request *halves[2])
{
	e->last = *o;
	e->n_attempts++;
	exporter_doubt(e, r, o);
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
