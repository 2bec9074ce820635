// SPDX-License-Identifier: Apache-2.0
/*
 * The export thread: takes requests into a bounded queue and delivers them in order, one at a time. Rank 1
 * (otlp).
 *
 * The caller's thread and the export thread share the queue, the counters and the events, all under one lock;
 * the equation at struct otlp_count holds for samples and for requests whenever that lock is free. While
 * there is nothing to deliver, or the Collector is away, the thread sleeps until a submit or the next
 * attempt.
 *
 * This module does not log: what the operator should read is reported as events, each once per change.
 */
#ifndef PROFLET_OTLP_EXPORTER_H
#define PROFLET_OTLP_EXPORTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/cleanup.h"
#include "otlp/client.h"
#include "otlp/events.h"
#include "otlp/queue.h"
#include "otlp/request.h"

/* How long a stop waits for a Collector that does not take the oldest request; if that can go to disk. */
#define OTLP_STOP_AWAY_NS 3000000000ull
#define OTLP_STOP_SPOOL_NS 500000000ull

struct otlp_exporter;

struct otlp_exporter_stats {
	struct otlp_count samples, requests; /* `queued` includes the request that is being sent */
	uint64_t queued_bytes, spooled_bytes;
	uint64_t spool_failures; /* writes that the file system refused */
	uint64_t spool_foreign;	 /* entries of the spool's folder that are not the agent's */
	uint64_t exported_raw_bytes, exported_wire_bytes; /* before and after compression */
	uint64_t attempts, retries;
	uint64_t failures[OTLP_N_FAILURES]; /* attempts that have to be repeated, by reason */
	/*
	 * Samples of attempts that got no answer although the request was sent whole: some of these
	 * arrive twice.
	 */
	uint64_t unanswered_samples;
	uint64_t splits;      /* requests that were too large for the server and were divided into two */
	uint64_t events_lost; /* events dropped because their ring was full */
	uint64_t cpu_ns;      /* CPU time of the thread, until its last step */
	bool away;
	struct otlp_outcome last; /* the result of the last attempt; zeroed before the first */
};

struct otlp_exporter_options {
	struct otlp_client_options client;
	enum otlp_coding coding; /* how requests are compressed */
	size_t queue_max_bytes;	 /* limit for the compressed requests in memory; 0: OTLP_QUEUE_MAX_BYTES */
	/* A folder that belongs to the spool, see otlp/spool.h; NULL: none. Borrowed for the call. */
	const char *spool_path;
	uint64_t spool_max_bytes;
	/*
	 * Called with the numbers whenever they may have changed, on either thread and under the exporter's
	 * lock: it must not wait. NULL: not called.
	 */
	void (*publish)(const struct otlp_exporter_stats *now, void *data);
	void *publish_data;
};

/*
 * Starts the thread, with all signals blocked. Nothing is connected yet. 0; -EINVAL with *ret_why (may be
 * NULL), see otlp_client_new; -ENOMEM, -EMFILE, -EAGAIN.
 */
int otlp_exporter_new(struct otlp_exporter **ret, const struct otlp_exporter_options *opt,
		      const char **ret_why);
/* Stops at once if otlp_exporter_stop was not called. NULL is fine. */
void otlp_exporter_free(struct otlp_exporter *e);

/*
 * Moves the request to the exporter; never blocks. When the queue is full, the oldest requests that are not
 * being sent are dropped; after otlp_exporter_stop the request itself is dropped.
 */
void otlp_exporter_submit(struct otlp_exporter *e, struct otlp_request *request);
/*
 * Sends at once and waits until nothing is queued or spooled. 0; -ETIMEDOUT: the deadline (monotonic)
 * has passed.
 */
int otlp_exporter_flush(struct otlp_exporter *e, uint64_t deadline_mono_ns);
/*
 * Flushes until the deadline, or until the Collector is away for OTLP_STOP_AWAY_NS meanwhile, or has not
 * taken one request that can go to disk, then ends the thread and cancels what it does. Remaining requests
 * go to the spool, or are counted as dropped (shutdown). Results as above; may be called twice.
 */
int otlp_exporter_stop(struct otlp_exporter *e, uint64_t deadline_mono_ns);

void otlp_exporter_stats(struct otlp_exporter *e, struct otlp_exporter_stats *ret);
/* A descriptor that is readable while events wait. Borrowed. */
int otlp_exporter_event_fd(const struct otlp_exporter *e);
/* Takes the oldest event. False: there is none. */
bool otlp_exporter_next_event(struct otlp_exporter *e, struct otlp_event *ret);

DEFINE_CLEANUP(struct otlp_exporter *, otlp_exporter_free)
#define _cleanup_exporter_ _cleanup_(otlp_exporter_free_p)

#endif
