// SPDX-License-Identifier: Apache-2.0
/*
 * The builder: samples of one or more windows become export requests, each complete in itself and below
 * max_bytes.
 *
 *	otlp_batch_new → { otlp_batch_resource → otlp_batch_sample… }… → otlp_batch_finish
 *
 * The samples of a resource are kept apart by what they count (struct otlp_profile_type): each type becomes
 * a Profile of its own. When the next sample could make the request too large, the batch closes it, hands it
 * to `emit`, and goes on with the same resource in the next one. A batch belongs to one thread; after an
 * error it stays usable unless said otherwise.
 */
#ifndef PROFLET_OTLP_PROFILE_H
#define PROFLET_OTLP_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/cleanup.h"
#include "otlp/frames.h"
#include "otlp/request.h"

#define OTLP_BATCH_MAX_BYTES (3584u << 10) /* receivers stop at 4 MiB, after decompression */
#define OTLP_ATTRS_MAX 64		   /* of one sample or resource */

enum otlp_attr_type { OTLP_STRING, OTLP_INT };

/* A borrowed view. An attribute with an empty key, or with type OTLP_STRING and no string, is omitted. */
struct otlp_attr {
	const char *key;
	enum otlp_attr_type type;
	const char *string;
	int64_t integer;
};

/*
 * The meaning of a Profile's values: their type and unit, and the period at which samples were taken. Equal
 * types share one Profile. The strings are borrowed for the batch's life.
 */
struct otlp_profile_type {
	const char *type, *unit;	       /* "samples", "count" */
	const char *period_type, *period_unit; /* "cpu", "nanoseconds"; NULL: samples have no period */
	int64_t period;			       /* in period_unit */
};

/* CPU time: a value of 1 stands for a period of 1e9 / frequency. */
static inline struct otlp_profile_type otlp_cpu_profile(uint32_t frequency_hz)
{
	return (struct otlp_profile_type){"samples", "count", "cpu", "nanoseconds",
					  frequency_hz ? 1000000000 / (int64_t)frequency_hz : 0};
}

/* A borrowed view. */
struct otlp_stack_view {
	uint64_t id;		/* equal numbers are equal stacks, as long as the batch lives; 0: unknown */
	const uint64_t *frames; /* numbers of the frames, leaf first */
	size_t n;
};

/* Events of one stack with one set of attributes. A borrowed view. */
struct otlp_sample_events {
	const struct otlp_profile_type *type;
	struct otlp_stack_view stack;
	const struct otlp_attr *attrs;
	size_t n_attrs;
	const uint64_t *unix_ns; /* n */
	const uint64_t *values;	 /* n, in the type's unit; NULL: each is 1 */
	size_t n;
};

struct otlp_batch;

struct otlp_batch_options {
	const char *scope_version; /* borrowed for the batch's life; NULL: none */
	uint64_t start_unix_ns;	   /* of the window */
	uint64_t duration_ns;
	bool bare;	  /* frames without a name get no line, see frames.h */
	bool aggregate;	  /* samples have one value instead of timestamps */
	size_t max_bytes; /* of one request, uncompressed; 0: OTLP_BATCH_MAX_BYTES */
	/*
	 * Describes a frame, when its number first occurs in a request: equal numbers are equal frames as
	 * long as the batch lives.
	 */
	otlp_frame_fn frame;
	void *frame_data;
	/*
	 * Takes a request that is full (ownership moves). < 0: the call that caused it returns this value.
	 * NULL: that call returns -ENOBUFS, see otlp_batch_sample.
	 */
	int (*emit)(void *data, struct otlp_request *request);
	/*
	 * Takes encoded profiles as they are completed, so that a request may be larger than memory: these
	 * bytes are the beginning of the encoded request, and otlp_batch_finish returns the others. < 0 as
	 * for emit. NULL: requests are whole.
	 */
	int (*spill)(void *data, const void *bytes, size_t len);
	void *data;
};

/* 0, -ENOMEM, -EINVAL (no `frame`). */
int otlp_batch_new(struct otlp_batch **ret, const struct otlp_batch_options *opt);
void otlp_batch_free(struct otlp_batch *b);

/*
 * Ends the current resource and begins the next one. Its attributes are unique by key: of two with the same
 * key the first one counts. A resource without samples is omitted. 0, -ENOMEM, -E2BIG (the attributes alone
 * fill half a request).
 */
int otlp_batch_resource(struct otlp_batch *b, const struct otlp_attr *attrs, size_t n);

/*
 * Adds events to the present resource. Those of one type with equal stack and attributes merge. A sample has
 * timestamps; values, too, if any were given; with options.aggregate it has the sum of its values alone.
 *
 * 0, or: -EINVAL, no resource yet or no type; -ENOMEM; -E2BIG, no request can hold this stack; what emit
 * returned; -ENOBUFS, the request is full and there is no emit: finish, then repeat what *ret_added (may be
 * NULL) does not cover. *ret_added is the number of events that were taken, also on errors.
 */
int otlp_batch_sample(struct otlp_batch *b, const struct otlp_sample_events *events, size_t *ret_added);

/*
 * Begins another window in the same request: ends the resource, and forgets the numbers of stacks and frames.
 * Arguments as in the options. 0 or -ENOMEM, or what spill returned.
 */
int otlp_batch_window(struct otlp_batch *b, uint64_t start_unix_ns, uint64_t duration_ns);

/* Upper bound of the encoded request's current size, in bytes, without what was spilled. */
size_t otlp_batch_size(const struct otlp_batch *b);

/*
 * Completes the request; *ret has everything since the last one and is owned by the caller, or NULL when
 * there are no samples. The batch is then empty and continues in the same resource. 0; -ENOMEM: the batch
 * is unchanged.
 */
int otlp_batch_finish(struct otlp_batch *b, struct otlp_request **ret);

DEFINE_CLEANUP(struct otlp_batch *, otlp_batch_free)
#define _cleanup_batch_ _cleanup_(otlp_batch_free_p)

#endif
