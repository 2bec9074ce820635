// SPDX-License-Identifier: Apache-2.0
/*
 * The sample_type of the side-band events, and the sample_id that it appends to every record. Private
 * to agent/probe.
 */
#ifndef PROFLET_PROBE_SIDEBAND_LAYOUT_H
#define PROFLET_PROBE_SIDEBAND_LAYOUT_H

#include <linux/perf_event.h>

#define SIDEBAND_SAMPLE_TYPE (PERF_SAMPLE_TID | PERF_SAMPLE_TIME)
#define SIDEBAND_TRAILER_BYTES 16u /* u32 pid, tid; u64 time */
#define SIDEBAND_TRAILER_TIME 8u

/*
 * struct perf_event_header; u32 pid, tid; u64 addr, len, pgoff; 24 bytes that identify the file; u32 prot,
 * flags; name
 */
#define SIDEBAND_MMAP_START 16u
#define SIDEBAND_MMAP_NAME 72u
#define SIDEBAND_ANONYMOUS "//anon"

#endif
