// SPDX-License-Identifier: Apache-2.0
/*
 * The queue of requests and its book-keeping: the identity at struct otlp_count holds for samples and for
 * requests after every function here. No lock inside; the exporter has one. Owns the requests in it. Rank 1
 * (otlp).
 */
#ifndef PROFLET_OTLP_QUEUE_H
#define PROFLET_OTLP_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "otlp/request.h"
#include "otlp/spool.h"

#define OTLP_QUEUE_MAX_BYTES (32u << 20)

/* Why a sample was not delivered. Append-only: names of metrics. */
#define OTLP_DROP_REASONS(X)                                                             \
	X(QUEUE_FULL, queue_full, "the queue was full and the oldest request went")      \
	X(REJECTED, rejected, "the server refused the request for good")                 \
	X(PARTIAL_SUCCESS, partial_success, "the server took the request without these") \
	X(TOO_LARGE, too_large, "the server takes no request of this size")              \
	X(SHUTDOWN, shutdown, "still queued when the agent had to stop")                 \
	X(SPOOL_FULL, spool_full, "the spool was full and the oldest request went")      \
	X(SPOOL_DAMAGED, spool_damaged, "the request could not be read back from the spool")

#define X(name, text, help) OTLP_DROP_##name,
enum otlp_drop { OTLP_DROP_REASONS(X) OTLP_N_DROP_REASONS };
#undef X

const char *otlp_drop_name(enum otlp_drop reason);
const char *otlp_drop_help(enum otlp_drop reason);

/* submitted + recovered = exported + dropped + queued + spooled */
struct otlp_count {
	uint64_t submitted, exported, queued, dropped[OTLP_N_DROP_REASONS];
	uint64_t recovered, spooled; /* found on disk at the start; on disk now */
};

/* Embedded. */
struct otlp_queue {
	struct otlp_request *first, *last;
	size_t max_bytes, bytes; /* of held_bytes */
	struct otlp_count samples, requests;
};

void otlp_queue_init(struct otlp_queue *q, size_t max_bytes);
void otlp_queue_fini(struct otlp_queue *q); /* frees without counting */

/* Moves the request in. Makes room by dropping the oldest that are not busy, or drops the new one if that is
 * not enough (queue_full). */
void otlp_queue_put(struct otlp_queue *q, struct otlp_request *r);
/* Takes over new bytes of a request in the queue: its held_bytes follow. Room is made at the next put. */
void otlp_queue_recode(struct otlp_queue *q, struct otlp_request *r, struct buf *data,
		       enum otlp_coding coding);
/* The request, in the queue or just removed from the spool, is delivered but for n_partial of its samples;
 * frees it. */
void otlp_queue_exported(struct otlp_queue *q, struct otlp_request *r, uint64_t n_partial);
/* Frees the request, which is in the queue or was just removed from the spool. */
void otlp_queue_drop(struct otlp_queue *q, struct otlp_request *r, enum otlp_drop reason);
/* Frees the request, which is in the queue, and now stands in the spool too. */
void otlp_queue_stored(struct otlp_queue *q, struct otlp_request *r);
/* Puts two that have its samples in the place of a request, which it frees: it is in the queue, or was just
 * removed from the spool. */
void otlp_queue_split(struct otlp_queue *q, struct otlp_request *r, struct otlp_request *halves[2]);
/* Takes over what the spool has counted: to be called under the same lock as what follows from it here. */
void otlp_queue_sync(struct otlp_queue *q, const struct otlp_spool_stats *spool);
/* Counts and frees a request that never came in. */
void otlp_queue_refuse(struct otlp_queue *q, struct otlp_request *r, enum otlp_drop reason);

#endif
