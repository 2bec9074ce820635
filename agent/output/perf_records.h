// SPDX-License-Identifier: Apache-2.0
/*
 * Records of perf.data as the kernel writes them (perf_event_open(2), "Overflow handling": struct
 * perf_event_header and what follows it), for events with OUTPUT_PERF_SAMPLE_TYPE and sample_id_all.
 * Each function appends one record: 0, -ENOMEM, -EOVERFLOW as buf_append. Private to output/.
 */
#ifndef PROFLET_OUTPUT_PERF_RECORDS_H
#define PROFLET_OUTPUT_PERF_RECORDS_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/buf.h"

#define OUTPUT_PERF_SAMPLE_TYPE \
	(PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD)

#define OUTPUT_PERF_KERNEL UINT32_MAX /* the process that the kernel's mappings are of */
#define OUTPUT_PERF_BUILD_ID_MAX 20

struct output_perf_build_id {
	uint8_t bytes[OUTPUT_PERF_BUILD_ID_MAX];
	uint8_t n; /* 0: unknown */
};

struct output_perf_mapping {
	uint32_t pid;
	uint64_t start, len, file_offset; /* bytes */
	uint64_t time_ns;		  /* from when on; 0: before all samples */
	const char *path;
	const struct output_perf_build_id *build_id;
};

/* A sample; the frames of its stack are added to it one by one. */
struct output_perf_sample {
	uint64_t ip;
	uint32_t pid, tid;
	uint64_t time_ns;
	uint32_t cpu, reserved;
	uint64_t period_ns;
};

#define OUTPUT_PERF_SAMPLE_BYTES (sizeof(struct perf_event_header) + sizeof(struct output_perf_sample))

int output_perf_put_mapping(struct buf *b, const struct output_perf_mapping *m);
/* A thread of process `pid` begins. */
int output_perf_put_fork(struct buf *b, uint32_t pid, uint32_t tid);
/* The thread has this name from then on. */
int output_perf_put_comm(struct buf *b, uint32_t pid, uint32_t tid, uint64_t time_ns, const char *name);
/* `chain`: addresses and marks of contexts, leaf first. */
int output_perf_put_sample(struct buf *b, const struct output_perf_sample *s, const uint64_t *chain,
			   size_t n);
/* The end: readers need not wait for earlier records. */
int output_perf_put_end(struct buf *b);
/* The build id of a file, as an item of the feature HEADER_BUILD_ID. */
int output_perf_put_build_id(struct buf *b, const char *path, bool kernel,
			     const struct output_perf_build_id *id);

#endif
