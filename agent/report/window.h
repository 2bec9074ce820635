// SPDX-License-Identifier: Apache-2.0
/*
 * The samples between two closings of a window. It holds what is needed to name them until it is cleared: the
 * images of their processes, and the binaries that their frames are of. Private to agent/report.
 */
#ifndef PROFLET_REPORT_WINDOW_H
#define PROFLET_REPORT_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/binary/binary_set.h"
#include "agent/sample/aggregate.h"

struct sampled_task;

struct window {
	struct sample_aggregate *samples;
	uint64_t start_ns, end_ns;  /* CLOCK_MONOTONIC; the end is set when it closes */
	uint32_t frequency_hz;	    /* at which its samples were taken */
	struct binary_set binaries; /* that its frames are of */
};

/* by_cpu: samples of different CPUs are kept apart. The registry is borrowed. 0 or -ENOMEM. */
int window_init(struct window *w, struct binary_registry *binaries, size_t max_bytes, bool by_cpu);
/* Zeroed is fine. */
void window_fini(struct window *w);
/* 0, or -ENOSPC / -ENOMEM: the sample is not in. */
int window_add(struct window *w, const struct sampled_task *task, const struct sample_view *v);
/* Drops the samples and what it holds for them. */
void window_clear(struct window *w);
/* Samples, and the bytes that they take of max_bytes. */
size_t window_samples(const struct window *w);
size_t window_bytes(const struct window *w);

#endif
