// SPDX-License-Identifier: Apache-2.0
/*
 * The export thread: takes requests, keeps them in a bounded queue, delivers them in order, one at a time.
 * Rank 1 (otlp).
 *
 * The caller's thread and the export thread share the queue, the counters and the events, all under one lock;
 * the identity at struct otlp_count holds for samples and for requests whenever that lock is free. With
 * nothing to deliver, or nobody to deliver to, the thread sleeps until a submit or the next attempt.
 *
 * This module does not log: what the operator should read comes out as events, each once per change.
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

struct otlp_exporter;

struct otlp_exporter_options {
	struct otlp_client_options client;
	enum otlp_coding coding; /* compression of requests */
	size_t queue_max_bytes;	 /* 0: OTLP_QUEUE_MAX_BYTES; of what requests occupy, coded */
	const char *spool_path; /* a folder of its own, see otlp/spool.h; NULL: none. Read by the call only */
	uint64_t spool_max_bytes;
};

struct otlp_exporter_stats {
	struct otlp_count samples, requests; /* queued includes what is on its way */
	uint64_t queued_bytes, spooled_bytes;
	uint64_t spool_failures;			  /* writes that the file system refused */
	uint64_t exported_raw_bytes, exported_wire_bytes; /* before and after compression */
	uint64_t attempts, retries;
	uint64_t unanswered_samples; /* of attempts that a server may have taken without a word: what comes
				      * twice is among them */
	uint64_t splits;	     /* requests that were too large for the server and went on as two */
	uint64_t events_lost;	     /* the ring was full */
	uint64_t cpu_ns;	     /* that the thread took, until its last step */
	bool away;
	struct otlp_outcome last; /* of the last attempt; zeroed before the first */
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
 * on their way are dropped; after otlp_exporter_stop the request itself is.
 */
void otlp_exporter_submit(struct otlp_exporter *e, struct otlp_request *request);
/* Tries at once and waits until nothing is queued or spooled. 0, -ETIMEDOUT (deadline on the monotonic
 * clock). */
int otlp_exporter_flush(struct otlp_exporter *e, uint64_t deadline_mono_ns);
/* Flushes until the deadline, ends the thread; what is left goes to the spool, or is counted as dropped
 * (shutdown). As above; twice is fine. */
int otlp_exporter_stop(struct otlp_exporter *e, uint64_t deadline_mono_ns);

void otlp_exporter_stats(struct otlp_exporter *e, struct otlp_exporter_stats *ret);
/* Readable while events wait; borrowed. */
int otlp_exporter_event_fd(const struct otlp_exporter *e);
/* True and the oldest event, or false. */
bool otlp_exporter_next_event(struct otlp_exporter *e, struct otlp_event *ret);

DEFINE_CLEANUP(struct otlp_exporter *, otlp_exporter_free)
#define _cleanup_exporter_ _cleanup_(otlp_exporter_free_p)

#endif
