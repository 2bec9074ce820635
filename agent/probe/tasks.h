// SPDX-License-Identifier: Apache-2.0
/*
 * What tasks do, told by raw tracepoints, in the words of the perf side-band: fork, execve, new name, exit.
 * Mappings are not told of, and neither is who they belong to before an execve. Inside probe/ only.
 */
#ifndef PROFLET_PROBE_TASKS_H
#define PROFLET_PROBE_TASKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/probe/sideband.h"

/* One record of the ring. `comm` is borrowed from it. 0, or -EBADMSG. */
int tasks_decode(const void *record, size_t len, struct sideband_event *ret);

struct tasks;

/* Over the program's ring, by its descriptor (borrowed), and its counter of lost events, which outlive it. */
int tasks_new(struct tasks **ret, int map_fd, const uint64_t *lost);
void tasks_free(struct tasks *t);
/* An epoll fd, readable when records wait. Borrowed. */
int tasks_fd(const struct tasks *t);
bool tasks_pending(const struct tasks *t);
/* As sideband_drain. A SIDEBAND_LOST event comes before what was read after a loss. */
int tasks_drain(struct tasks *t, sideband_fn fn, void *data);
/* Events lost, and records that did not decode. */
uint64_t tasks_lost_total(const struct tasks *t);

#endif
