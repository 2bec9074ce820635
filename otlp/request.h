// SPDX-License-Identifier: Apache-2.0
/*
 * One export request: a complete ExportProfilesServiceRequest in its encoded form, and what the counters need
 * to know about it. The same bytes parse as ProfilesData. Heap memory with one owner: builder → caller →
 * exporter. Rank 1 (otlp).
 */
#ifndef PROFLET_OTLP_REQUEST_H
#define PROFLET_OTLP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"

/* Content-coding of the bytes in a request. Append-only: used as an index of names. */
enum otlp_coding { OTLP_IDENTITY, OTLP_GZIP, OTLP_ZSTD, OTLP_N_CODINGS };

struct otlp_request {
	struct otlp_request *next; /* the exporter's queue */
	struct buf data;	   /* owned; encoded by `coding` */
	enum otlp_coding coding;
	size_t raw_bytes;   /* of the message before coding */
	uint64_t n_samples; /* events: timestamps, or the sum of values */
	uint64_t n_profiles;
	uint64_t start_unix_ns, end_unix_ns; /* of the window that it covers, end exclusive */
	/* The exporter's. */
	size_t held_bytes; /* what it counts for in the queue */
	uint32_t attempts; /* how often it was sent */
	uint32_t halvings; /* how often it was divided because a server found it too large */
	bool busy;	   /* the export thread works on it outside the lock */
	bool resent;	   /* the one repetition without delay is used up */
	bool uncodable;	   /* compression failed, it goes as it is */
	bool from_spool;   /* read back from disk, not in the queue */
};

void otlp_request_free(struct otlp_request *r); /* NULL is fine */

DEFINE_CLEANUP(struct otlp_request *, otlp_request_free)
#define _cleanup_request_ _cleanup_(otlp_request_free_p)

#endif
