// SPDX-License-Identifier: Apache-2.0
/*
 * The queue of requests, and the counters: the equation at struct otlp_count holds for samples and for
 * requests after every function here. Has no lock of its own, the exporter has one. Owns its requests. Rank
 * 1 (otlp).
 */
#ifndef PROFLET_OTLP_QUEUE_H
#define PROFLET_OTLP_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "otlp/request.h"
#include "otlp/spool.h"

#define OTLP_QUEUE_MAX_BYTES (32u << 20)

/* Why samples were dropped. Append-only: the names are labels of a metric. */
#define OTLP_DROP_REASONS(X)                                                                 \
	X(QUEUE_FULL, queue_full, "the queue was full and the oldest request went")          \
	X(REJECTED, rejected, "the server refused the request for good")                     \
	X(PARTIAL_SUCCESS, partial_success, "the server took the request without these")     \
	X(TOO_LARGE, too_large, "the server takes no request of this size")                  \
	X(SHUTDOWN, shutdown, "still queued when the agent had to stop")                     \
	X(SPOOL_FULL, spool_full, "the spool was full and the oldest request went")          \
	X(SPOOL_DAMAGED, spool_damaged, "the request could not be read back from the spool") \
	X(NO_SENDER, no_sender, "the process that delivers had ended, or could not take it")

#define X(name, text, help) OTLP_DROP_##name,
enum otlp_drop { OTLP_DROP_REASONS(X) OTLP_N_DROP_REASONS };
#undef X

const char *otlp_drop_name(enum otlp_drop reason);
const char *otlp_drop_help(enum otlp_drop reason);

/* recovered + submitted = exported + dropped + queued + spooled */
struct otlp_count {
	uint64_t submitted, exported, queued, dropped[OTLP_N_DROP_REASONS];
	uint64_t recovered, spooled; /* found on disk at the start; on disk now */
};

/* Embedded. */
struct otlp_queue {
	struct otlp_request *first, *last;
	size_t max_bytes, bytes; /* sums of held_bytes */
	struct otlp_count samples, requests;
};

void otlp_queue_init(struct otlp_queue *q, size_t max_bytes);
void otlp_queue_fini(struct otlp_queue *q); /* frees the requests without counting them */

/*
 * Adds the request. Makes room by dropping the oldest requests that are not busy; if that is not enough,
 * drops the new one (queue_full).
 */
void otlp_queue_put(struct otlp_queue *q, struct otlp_request *r);
/* Replaces the bytes of a request in the queue and updates its held_bytes. The next put makes room. */
void otlp_queue_recode(struct otlp_queue *q, struct otlp_request *r, struct buf *data,
		       enum otlp_coding coding);
/*
 * Counts the request as delivered, except n_partial of its samples, and frees it. It is in the queue, or was
 * just removed from the spool.
 */
void otlp_queue_exported(struct otlp_queue *q, struct otlp_request *r, uint64_t n_partial);
/* Counts the request as dropped and frees it. It is in the queue, or was just removed from the spool. */
void otlp_queue_drop(struct otlp_queue *q, struct otlp_request *r, enum otlp_drop reason);
/* Frees the request, which is in the queue and now also in the spool. */
void otlp_queue_stored(struct otlp_queue *q, struct otlp_request *r);
/*
 * Replaces a request by two that have its samples, and frees it. It is in the queue, or was just removed from
 * the spool.
 */
void otlp_queue_split(struct otlp_queue *q, struct otlp_request *r, struct otlp_request *halves[2]);
/*
 * Copies the spool's counters. Call it under the same lock as the functions here that report what the
 * spool did.
 */
void otlp_queue_sync(struct otlp_queue *q, const struct otlp_spool_stats *spool);
/* Counts a request as submitted and dropped, and frees it. */
void otlp_queue_refuse(struct otlp_queue *q, struct otlp_request *r, enum otlp_drop reason);

#endif
