// SPDX-License-Identifier: Apache-2.0
/* perf_event_open and what belongs to it. Rank 1. */
#ifndef PROFLET_PROBE_PERF_H
#define PROFLET_PROBE_PERF_H

#include <stddef.h>

struct perf_event_attr;

/* A CPU-wide event on `cpu` for all processes. The fd (close-on-exec) or -errno. */
int perf_open(struct perf_event_attr *attr, int cpu);
size_t perf_page_bytes(void);

#endif
