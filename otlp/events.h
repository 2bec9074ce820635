// SPDX-License-Identifier: Apache-2.0
/*
 * The exporter's events, for the log: a ring, with a descriptor that is readable while the ring has events.
 * Has no lock of its own. Rank 1 (otlp).
 */
#ifndef PROFLET_OTLP_EVENTS_H
#define PROFLET_OTLP_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "otlp/outcome.h"

#define OTLP_EVENTS_MAX 16

/*
 * What happened. Append-only.
 *
 * AWAY: deliveries fail for now, the text says why; not repeated before BACK, which says that they work
 * again. REJECTED: a request was refused for good. PARTIAL: a request was accepted in part, or with a
 * warning. SPOOL_FAILED: the spool cannot be opened or written, the text says why. SPOOL_DROPPED: requests in
 * the spool were dropped, because it was full or they were damaged. These four are not repeated while the
 * text is the same. SPOOL_RECOVERED: the spool has requests of a previous run, or opens after all.
 * SPOOL_BUSY: another agent has it.
 */
#define OTLP_EVENTS(X)                      \
	X(AWAY, away)                       \
	X(BACK, back)                       \
	X(REJECTED, rejected)               \
	X(PARTIAL, partial)                 \
	X(SPOOL_FAILED, spool_failed)       \
	X(SPOOL_DROPPED, spool_dropped)     \
	X(SPOOL_RECOVERED, spool_recovered) \
	X(SPOOL_BUSY, spool_busy)

#define X(name, text) OTLP_EVENT_##name,
enum otlp_event_kind { OTLP_EVENTS(X) OTLP_N_EVENTS };
#undef X

const char *otlp_event_name(enum otlp_event_kind kind);

struct otlp_event {
	enum otlp_event_kind kind;
	uint64_t n_queued_requests;	  /* at the time of the event */
	char text[OTLP_OUTCOME_TEXT_MAX]; /* one line for the operator; "" for BACK */
};

/* Embedded. */
struct otlp_events {
	int fd;
	unsigned first, n;
	uint64_t n_lost; /* events dropped because the ring was full */
	struct otlp_event ring[OTLP_EVENTS_MAX];
};

int otlp_events_init(struct otlp_events *e); /* 0, or -errno of eventfd */
void otlp_events_fini(struct otlp_events *e);
void otlp_events_put(struct otlp_events *e, enum otlp_event_kind kind, const char *text,
		     uint64_t n_queued_requests);
/* Takes the oldest event. False: there is none. */
bool otlp_events_next(struct otlp_events *e, struct otlp_event *ret);

#endif
