// SPDX-License-Identifier: Apache-2.0
/*
 * The exporter's inside, for its own files: exporter.c (thread, calls), exporter_settle.c (what an answer
 * does), exporter_spool.c (the disk). Rank 1 (otlp).
 */
#ifndef PROFLET_OTLP_EXPORTER_PRIVATE_H
#define PROFLET_OTLP_EXPORTER_PRIVATE_H

#include <pthread.h>

#include "otlp/exporter.h"

struct otlp_exporter {
	struct otlp_client *client; /* used by the export thread only, after otlp_exporter_new */
	enum otlp_coding coding;
	int wake_fd;   /* readable: look at the queue again */
	int cancel_fd; /* readable, and remains so: cancel the current attempt */
	pthread_t thread;
	bool joined; /* used by the caller's thread only */

	pthread_mutex_t lock;
	pthread_cond_t changed; /* a request left the queue, or the thread ended */
	struct otlp_queue queue;
	struct otlp_events events;
	uint64_t not_before_ns; /* monotonic; no attempt before this time */
	uint32_t n_failures;	/* consecutive failures */
	bool away, stopping, ended;
	uint64_t stop_deadline_ns;
	uint64_t raw_bytes, wire_bytes, n_attempts, n_retries, n_splits, n_unanswered, cpu_ns;
	struct otlp_outcome last;

	/* The disk. Used by the export thread only, except `spooled`, which is under the lock. */
	struct otlp_spool *spool;	 /* NULL: none */
	struct otlp_request *replaying;	 /* the oldest request on disk, while it is being delivered */
	struct otlp_spool_stats spooled; /* as of the last step */
	uint64_t spool_not_before_ns;	 /* no write before this time, because the last one failed */
	/* Limits the rate at which the Collector gets requests from the disk when it is back. */
	uint64_t replay_not_before_ns;

	struct {
		uint64_t since_ns;
		char text[OTLP_OUTCOME_TEXT_MAX];
	} said[OTLP_N_EVENTS]; /* the last text of each kind of event that is not repeated */
};

/*
 * With the lock held: puts an event; exporter_say_once omits an event that repeats the last one of its kind.
 */
void exporter_say(struct otlp_exporter *e, enum otlp_event_kind kind, const char *text);
void exporter_say_once(struct otlp_exporter *e, enum otlp_event_kind kind, const char *text);
/*
 * With the lock held: does what the answer requires, and frees the request unless it is to be sent again. If
 * it was too large, `halves` (NULLs: none; ownership moves) replace it.
 */
void exporter_settle(struct otlp_exporter *e, struct otlp_request *r, const struct otlp_outcome *o,
		     struct otlp_request *halves[2]);
/* With the lock held: counts the samples of an attempt without an answer, which the server may have taken. */
void exporter_doubt(struct otlp_exporter *e, const struct otlp_request *r, const struct otlp_outcome *o);
/* Without the lock: divides a request that was too large. NULLs: it cannot be divided. */
void exporter_halve(const struct otlp_request *r, const struct otlp_outcome *o,
		    struct otlp_request *ret_halves[2]);

/* Opens the spool, or puts an event that says why it cannot. Call before the thread starts. 0, -ENOMEM. */
int exporter_spool_start(struct otlp_exporter *e, const char *path, uint64_t max_bytes);
/* With the lock held: whether requests in the queue must go to disk before they are sent. */
bool exporter_spool_wanted(const struct otlp_exporter *e, uint64_t now);
/* Without the lock: moves the oldest request of the queue, which is busy, to the disk. */
void exporter_spool_store(struct otlp_exporter *e, struct otlp_request *r);
/* Without the lock: sends the oldest request on disk. */
void exporter_spool_replay(struct otlp_exporter *e);
/* After the thread has ended: moves requests from the queue to the disk, until the disk is full. */
void exporter_spool_stop(struct otlp_exporter *e);

#endif
