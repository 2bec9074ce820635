// SPDX-License-Identifier: Apache-2.0
/* The three clocks in nanoseconds. Samples and side-band carry CLOCK_MONOTONIC, OTLP wants Unix time. Rank 0.
 */
#ifndef PROFLET_BASE_CLOCK_H
#define PROFLET_BASE_CLOCK_H

#include <stdint.h>

#define NS_PER_MS 1000000ull
#define NS_PER_SEC 1000000000ull

uint64_t clock_mono_ns(void);
uint64_t clock_real_ns(void);
uint64_t clock_thread_cpu_ns(void);
/* CLOCK_REALTIME minus CLOCK_MONOTONIC, now; read it again when a window opens, the wall clock may step. */
int64_t clock_real_offset_ns(void);

#endif
