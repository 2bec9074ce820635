// SPDX-License-Identifier: Apache-2.0
/* perf_event_open and what belongs to it. Rank 1. */
#ifndef PROFLET_PROBE_PERF_H
#define PROFLET_PROBE_PERF_H

#include <stddef.h>

struct perf_event_attr;

/* A CPU-wide event on `cpu` for all processes. The fd (close-on-exec) or -errno. */
int perf_open(struct perf_event_attr *attr, int cpu);
/* The CPUs that are online: *ret is owned by the caller. Their number or -errno. */
int perf_online_cpus(int **ret);
size_t perf_page_bytes(void);

#endif
