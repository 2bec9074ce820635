// SPDX-License-Identifier: Apache-2.0
/*
 * Events of tasks from raw tracepoints of the BPF program, in the form of perf side-band events: fork,
 * execve, change of name, exit. Mappings are not reported. Private to agent/probe.
 */
#ifndef PROFLET_PROBE_TASKS_H
#define PROFLET_PROBE_TASKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/probe/sideband_event.h"

/* Decodes one record of the ring; `comm` is borrowed from it. 0 or -EBADMSG. */
int tasks_decode(const void *record, size_t len, struct sideband_event *ret);

struct tasks;

/* Reads the ring behind `map_fd`. Descriptor and counter of lost events are borrowed and must outlive it. */
int tasks_new(struct tasks **ret, int map_fd, const uint64_t *lost);
void tasks_free(struct tasks *t);
/* A descriptor that is readable when records wait. Borrowed. */
int tasks_fd(const struct tasks *t);
bool tasks_pending(const struct tasks *t);
/* As sideband_drain. */
int tasks_drain(struct tasks *t, sideband_fn fn, void *data);
/* As sideband_lost. */
void tasks_lost(const struct tasks *t, uint64_t ret[SIDEBAND_LOSSES_N]);

#endif
