// SPDX-License-Identifier: Apache-2.0
/* A wrapper for perf_event_open. */
#ifndef PROFLET_PROBE_PERF_H
#define PROFLET_PROBE_PERF_H

#include <stddef.h>

struct perf_event_attr;

/* Opens an event on `cpu` for all processes. Returns the fd (close-on-exec) or -errno. */
int perf_open(struct perf_event_attr *attr, int cpu);
size_t perf_page_bytes(void);

#endif
