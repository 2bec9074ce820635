// SPDX-License-Identifier: Apache-2.0
/* The samples of one Profile, merged by identity: the stack and the set of attributes (OTLP 1.10, Sample). */
#ifndef PROFLET_OTLP_SAMPLES_H
#define PROFLET_OTLP_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/buf.h"

#define OTLP_TIMESTAMP_BYTES 8
#define OTLP_VALUE_BYTES_MAX 10

struct otlp_sample_entry;
struct otlp_sample_run;

/*
 * Embedded; see otlp_samples_init. All samples share one array each for entries, runs, attributes, timestamps
 * and values.
 */
struct otlp_samples {
	struct otlp_sample_entry *entries; /* owned, in the order of arrival */
	struct otlp_sample_run *runs;	   /* owned */
	int32_t *attrs;			   /* owned */
	uint64_t *unix_ns;		   /* owned */
	int64_t *values;		   /* owned, one for each timestamp, if has_values */
	bool has_values;		   /* some events had values */
	size_t n_entries, n_runs, n_attrs, n_unix_ns;
	size_t cap_entries, cap_runs, cap_attrs, cap_unix_ns, cap_values;
	uint32_t *index; /* owned; entry + 1 by hash of its identity, open addressing; a power of two */
	size_t n_index;
	size_t bound;			   /* upper bound of the encoded samples, bytes */
	uint64_t n_events;		   /* timestamps added */
	uint64_t min_unix_ns, max_unix_ns; /* of all timestamps; UINT64_MAX and 0 without any */
};

void otlp_samples_init(struct otlp_samples *s);
void otlp_samples_clear(struct otlp_samples *s); /* does not free the memory */
void otlp_samples_fini(struct otlp_samples *s);	 /* can be used again after init */

/* Upper bound of what a new sample with n attributes and no timestamps adds to `bound`. */
size_t otlp_samples_entry_bound(size_t n_attrs);

/*
 * Upper bound of what such a sample adds in addition if the events have values, besides OTLP_VALUE_BYTES_MAX
 * for each value.
 */
size_t otlp_samples_values_bound(const struct otlp_samples *s);

/* One sample's identity and the events that are added to it. */
struct otlp_samples_add {
	int32_t stack;
	int32_t *attrs; /* is sorted by the call */
	size_t n_attrs;
	const uint64_t *unix_ns;
	const uint64_t *values; /* NULL: each is 1 */
	size_t n;
};

/* 0; -ENOMEM, -ENOSPC: nothing was added. */
int otlp_samples_add(struct otlp_samples *s, const struct otlp_samples_add *add, bool aggregate);

/* Appends each sample as a field 2 of a Profile, in the order of arrival. Errors of buf_append. */
int otlp_samples_encode(const struct otlp_samples *s, struct buf *b, bool aggregate);

#endif
