// SPDX-License-Identifier: Apache-2.0
/*
 * The samples of one profile, merged by identity: stack and set of attributes (OTLP 1.10, Sample). Rank 1
 * (otlp).
 */
#ifndef PROFLET_OTLP_SAMPLES_H
#define PROFLET_OTLP_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/buf.h"

#define OTLP_TIMESTAMP_BYTES 8

struct otlp_sample_entry;
struct otlp_sample_run;

/* Embedded; see otlp_samples_init. All entries, runs, attributes and timestamps lie in one array each. */
struct otlp_samples {
	struct otlp_sample_entry *entries; /* owned, in the order of arrival */
	struct otlp_sample_run *runs;	   /* owned */
	int32_t *attrs;			   /* owned */
	uint64_t *unix_ns;		   /* owned */
	size_t n_entries, n_runs, n_attrs, n_unix_ns;
	size_t cap_entries, cap_runs, cap_attrs, cap_unix_ns;
	uint32_t *index; /* owned; entry + 1 by hash of its identity, open addressing; a power of two */
	size_t n_index;
	size_t bound;			   /* upper bound of the encoded samples, bytes */
	uint64_t n_events;		   /* timestamps added */
	uint64_t min_unix_ns, max_unix_ns; /* of all timestamps; UINT64_MAX and 0 without any */
};

void otlp_samples_init(struct otlp_samples *s);
void otlp_samples_clear(struct otlp_samples *s); /* keeps the memory */
void otlp_samples_fini(struct otlp_samples *s);	 /* usable again after init */

/* Upper bound of what a new sample with n attributes and no timestamps adds to `bound`. */
size_t otlp_samples_entry_bound(size_t n_attrs);

/* Adds the timestamps to the sample of this identity. `attrs` is sorted here. 0, -ENOMEM (nothing added),
 * -ENOSPC. */
int otlp_samples_add(struct otlp_samples *s, int32_t stack, int32_t *attrs, size_t n_attrs,
		     const uint64_t *unix_ns, size_t n, bool aggregate);

/* Appends each sample as a field 2 of a Profile, in the order of arrival. Errors of buf_append. */
int otlp_samples_encode(const struct otlp_samples *s, struct buf *b, bool aggregate);

#endif
