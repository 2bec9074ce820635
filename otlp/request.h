// SPDX-License-Identifier: Apache-2.0
/*
 * One export request: an encoded ExportProfilesServiceRequest, and its numbers for the counters. The same
 * bytes can be parsed as ProfilesData. Heap memory with one owner: first the builder, then the caller, then
 * the exporter. Rank 1 (otlp).
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
	uint64_t start_unix_ns, end_unix_ns; /* of the window that it covers; the end is exclusive */
	/* Used by the exporter only. */
	size_t held_bytes; /* the bytes that the queue counts for it */
	uint32_t attempts; /* how often it was sent */
	uint32_t halvings; /* how often it was divided because a server found it too large */
	bool busy;	   /* the export thread works on it without the lock */
	bool resent;	   /* it was already sent again without delay, which happens once */
	bool uncodable;	   /* compression failed, so it is sent uncompressed */
	bool from_spool;   /* read back from disk, not in the queue */
};

void otlp_request_free(struct otlp_request *r); /* NULL is fine */

DEFINE_CLEANUP(struct otlp_request *, otlp_request_free)
#define _cleanup_request_ _cleanup_(otlp_request_free_p)

#endif
