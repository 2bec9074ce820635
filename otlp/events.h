// SPDX-License-Identifier: Apache-2.0
/*
 * The exporter's events: a ring with a descriptor that is readable while it holds any. No lock inside. Rank 1
 * (otlp).
 */
#ifndef PROFLET_OTLP_EVENTS_H
#define PROFLET_OTLP_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "otlp/outcome.h"

#define OTLP_EVENTS_MAX 16

/* What happened, for the log. Append-only. */
#define OTLP_EVENTS(X)                                                                                       \
	X(AWAY, away)	      /* deliveries fail for now, the text says why; once until BACK */              \
	X(BACK, back)	      /* they work again */                                                          \
	X(REJECTED, rejected) /* a request was refused for good; not repeated while the text is the same */  \
	X(PARTIAL, partial)   /* accepted in part, or with a warning; the same */                            \
	X(SPOOL_FAILED, spool_failed) /* the spool cannot be used or written, the text says why; the same */ \
	X(SPOOL_DROPPED, spool_dropped) /* requests of the spool were dropped, full or damaged; the same */  \
	X(SPOOL_RECOVERED, spool_recovered) /* an earlier life left requests */

#define X(name, text) OTLP_EVENT_##name,
enum otlp_event_kind { OTLP_EVENTS(X) OTLP_N_EVENTS };
#undef X

const char *otlp_event_name(enum otlp_event_kind kind);

struct otlp_event {
	enum otlp_event_kind kind;
	uint64_t n_queued_requests;	  /* when it happened */
	char text[OTLP_OUTCOME_TEXT_MAX]; /* one line for people; "" for BACK */
};

/* Embedded. */
struct otlp_events {
	int fd;
	unsigned first, n;
	uint64_t n_lost; /* the ring was full */
	struct otlp_event ring[OTLP_EVENTS_MAX];
};

int otlp_events_init(struct otlp_events *e); /* 0, -EMFILE … of eventfd */
void otlp_events_fini(struct otlp_events *e);
void otlp_events_put(struct otlp_events *e, enum otlp_event_kind kind, const char *text,
		     uint64_t n_queued_requests);
/* True and the oldest event, or false. */
bool otlp_events_next(struct otlp_events *e, struct otlp_event *ret);

#endif
