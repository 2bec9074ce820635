// SPDX-License-Identifier: Apache-2.0
/*
 * The samples of one reporting interval. Until it is cleared, a window holds references on all that naming
 * its samples needs: the images of their processes and the binaries of their frames. So names survive the end
 * of a process. Private to agent/report.
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
	uint64_t start_ns, end_ns;  /* CLOCK_MONOTONIC; the end is set when the window closes */
	uint32_t frequency_hz;	    /* sampling frequency */
	struct binary_set binaries; /* of its frames, held */
};

/*
 * `max_bytes`: of samples. `by_cpu`: samples of different CPUs are kept apart. The registry is borrowed. 0 or
 * -ENOMEM; window_fini is due in both cases.
 */
int window_init(struct window *w, struct binary_registry *binaries, size_t max_bytes, bool by_cpu);
/* A zeroed window is fine. */
void window_fini(struct window *w);
/* Adds a sample. 0; on -ENOSPC or -ENOMEM it is not added. */
int window_add(struct window *w, const struct sampled_task *task, const struct sample_view *v);
/* Removes all samples, and releases what was held for them. */
void window_clear(struct window *w);
size_t window_samples(const struct window *w);
size_t window_bytes(const struct window *w); /* used of max_bytes */

#endif
