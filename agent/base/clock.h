// SPDX-License-Identifier: Apache-2.0
/*
 * Clocks in nanoseconds. Samples and side-band records carry CLOCK_MONOTONIC, OTLP needs Unix time. The wall
 * clock can be set, and it jumps when the machine resumes from suspend, so the conversion depends on the
 * offset between the clocks at that time.
 */
#ifndef PROFLET_BASE_CLOCK_H
#define PROFLET_BASE_CLOCK_H

#include <stdint.h>

#define NS_PER_MS 1000000ull
#define NS_PER_SEC 1000000000ull

uint64_t clock_mono_ns(void);
uint64_t clock_real_ns(void);
uint64_t clock_thread_cpu_ns(void);
/* The period of the kernel's timer tick, NS_PER_SEC / CONFIG_HZ; 0 where the kernel does not say. */
uint64_t clock_tick_ns(void);
/* CLOCK_REALTIME minus CLOCK_MONOTONIC, now. Accurate to a microsecond unless the thread is interrupted. */
int64_t clock_real_offset_ns(void);

#define CLOCK_STEPS_MAX 32u    /* steps to remember; the oldest is forgotten first */
#define CLOCK_STEP_NS 100000ll /* smaller differences are measurement errors */

/* Offsets of the wall clock, each with the time from which it is valid. Embedded; zeroed: none is known. */
struct clock_steps {
	unsigned n;
	struct {
		uint64_t from_ns; /* CLOCK_MONOTONIC */
		int64_t offset_ns;
	} v[CLOCK_STEPS_MAX];
};

/* Notes that the offset is valid from `mono_ns` on. Times must ascend. Returns by how much the wall clock
 * stepped, 0: not at all. */
int64_t clock_steps_note(struct clock_steps *c, uint64_t mono_ns, int64_t offset_ns);
/* Converts a time of CLOCK_MONOTONIC to Unix time with the offset valid then. At least one must be noted. */
uint64_t clock_steps_unix_ns(const struct clock_steps *c, uint64_t mono_ns);

/* Returns a descriptor, owned by the caller, that becomes readable when the wall clock is set; or -errno. */
int clock_watch_open(void);
/* Rearms the descriptor; call before reading the offset. 0 or -errno. */
int clock_watch_again(int fd);

#endif
