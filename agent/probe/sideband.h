// SPDX-License-Identifier: Apache-2.0
/*
 * Perf side-band: the events by which the kernel reports what processes do (perf_event_open(2), "sample
 * layout"). Decodes single records (pure), and reads the rings of all CPUs as one sequence ordered by time.
 */
#ifndef PROFLET_PROBE_SIDEBAND_H
#define PROFLET_PROBE_SIDEBAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/probe/sideband_event.h"

/*
 * Decodes one record of `len` bytes, header included, as a SIDEBAND_SAMPLE_TYPE event with sample_id_all
 * gives it. 0, or -EBADMSG when the bytes do not hold what the header says.
 */
int sideband_decode(const uint8_t *record, size_t len, struct sideband_event *ret);

struct probe;
struct sideband;

/* Opens one event per CPU (CAP_PERFMON). 0 or -errno. */
int sideband_new(struct sideband **ret);
/*
 * The same events from raw tracepoints of the BPF program, for a probe that samples by timer tick. They do
 * not include mappings, and an execve is reported only when its mappings exist. The probe must outlive the
 * result. 0 or -errno.
 */
int sideband_new_of_tasks(struct sideband **ret, struct probe *probe);
/* Whether mappings are reported. */
bool sideband_has_mappings(const struct sideband *s);
void sideband_free(struct sideband *s);
/*
 * Opens rings for CPUs that came online and frees those of CPUs that went offline. Call it periodically.
 * Returns the number of CPUs that changed: events on a CPU before its ring was open are unknown. -errno: it
 * is tried again at the next call.
 */
int sideband_follow(struct sideband *s);
/* An epoll fd, readable when records wait. Borrowed. */
int sideband_fd(struct sideband *s);
/* Whether records wait. */
bool sideband_pending(const struct sideband *s);
/*
 * Hands every waiting record of this PID namespace to fn, ordered by time over all CPUs. Records written
 * after the call began wait for the next one. The event is valid for the call of fn only. Whenever records
 * are missing, fn gets a SIDEBAND_LOST event in the same call. Returns the number of events; -errno when
 * nothing was read, nothing is lost, and the next call tries again.
 */
int sideband_drain(struct sideband *s, sideband_fn fn, void *data);
/*
 * Stops reporting new executable memory of the process that has no file and lies within [start, end), until
 * any other event of that process is reported. Holds for one process at a time, the last one named: a runtime
 * may make thousands of such mappings a second.
 */
void sideband_ignore(struct sideband *s, uint32_t pid, uint64_t start, uint64_t end);
/* What is missing since the start, by reason. */
void sideband_lost(const struct sideband *s, uint64_t ret[SIDEBAND_LOSSES_N]);

#endif
