// SPDX-License-Identifier: Apache-2.0
/* What a recording consists of, for its readers. */
#ifndef PROFLET_RECORDING_RECORDING_TYPES_H
#define PROFLET_RECORDING_RECORDING_TYPES_H

#include <stddef.h>
#include <stdint.h>

#include "agent/output/profile.h"

#define RECORDING_BYTES_MAX (512u << 20)   /* of a file, also after decompression */
#define RECORDING_MEMORY_MAX (2048u << 20) /* of its decoded messages */

struct recording_options {
	const char *value; /* type of the values to read, such as "cpu"; NULL: samples, else the last one */
};

/* Strings are owned; "" where nothing is known. */
struct recording_info {
	const char *format; /* "pprof", "OTLP" or "folded stacks"; static */
	char *type, *unit;  /* of the values: "samples", "count" */
	char *hostname, *command, *version;
	uint64_t start_unix_ns, duration_ns, period_ns;
	uint64_t n_samples; /* the sum of the values */
};

/* A stack of the recording. Borrowed for the call; `stack.count` is its value. */
struct recording_stack {
	struct output_stack stack;
	const uint64_t *times; /* ns since 1970, of each sample */
	size_t n_times;	       /* as `stack.count`; or 0: not in the recording */
};

/* A negative result ends the reading, and is returned. */
typedef int (*recording_stack_fn)(const struct recording_stack *stack, void *data);

#endif
