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
	struct otlp_client *client; /* the export thread's, after otlp_exporter_new */
	enum otlp_coding coding;
	int wake_fd;   /* readable: look at the queue again */
	int cancel_fd; /* readable for good: give up what is on its way */
	pthread_t thread;
	bool joined; /* the caller's */

	pthread_mutex_t lock;
	pthread_cond_t changed; /* a request left the queue, or the thread ended */
	struct otlp_queue queue;
	struct otlp_events events;
	uint64_t not_before_ns; /* monotonic; no attempt earlier */
	uint32_t n_failures;	/* in a row */
	bool away, stopping, ended;
	uint64_t stop_deadline_ns;
	uint64_t raw_bytes, wire_bytes, n_attempts, n_retries, n_splits, n_unanswered, cpu_ns;
	struct otlp_outcome last;

	/* The disk: all the export thread's, but for what is copied into `spooled` under the lock. */
	struct otlp_spool *spool;	 /* NULL: none */
	struct otlp_request *replaying;	 /* the oldest of the disk, until it is settled */
	struct otlp_spool_stats spooled; /* as of the last step */
	uint64_t spool_not_before_ns;	 /* no write earlier: the last one failed */
	uint64_t replay_not_before_ns;	 /* the Collector is not flooded when it is back */

	struct {
		uint64_t since_ns;
		char text[OTLP_OUTCOME_TEXT_MAX];
	} said[OTLP_N_EVENTS]; /* the last text of each kind that is not repeated */
};

/* With the lock held: an event; one that is left out while it repeats the last of its kind. */
void exporter_say(struct otlp_exporter *e, enum otlp_event_kind kind, const char *text);
void exporter_say_once(struct otlp_exporter *e, enum otlp_event_kind kind, const char *text);
/*
 * With the lock held: what the answer means for the request, which it frees unless it is to be sent again.
 * `halves` (NULLs: none, else given away) take its place where it was too large.
 */
void exporter_settle(struct otlp_exporter *e, struct otlp_request *r, const struct otlp_outcome *o,
		     struct otlp_request *halves[2]);
/* With the lock held: an attempt without an answer leaves its samples in doubt. */
void exporter_doubt(struct otlp_exporter *e, const struct otlp_request *r, const struct otlp_outcome *o);
/* Without the lock: the halves to send instead of a request that was too large, or NULLs. */
void exporter_halve(const struct otlp_request *r, const struct otlp_outcome *o,
		    struct otlp_request *ret_halves[2]);

/* Opens the spool, or says why there is none. Before the thread starts. 0, -ENOMEM. */
int exporter_spool_start(struct otlp_exporter *e, const char *path, uint64_t max_bytes);
/* With the lock held: whether requests of the queue are to go to disk before they are sent. */
bool exporter_spool_wanted(const struct otlp_exporter *e, uint64_t now);
/* Without the lock: moves the oldest request of the queue, which is busy, to the disk. */
void exporter_spool_store(struct otlp_exporter *e, struct otlp_request *r);
/* Without the lock: sends the oldest request of the disk. */
void exporter_spool_replay(struct otlp_exporter *e);
/* After the thread has ended: all of the queue that the disk takes. */
void exporter_spool_stop(struct otlp_exporter *e);

#endif
