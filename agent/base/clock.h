// SPDX-License-Identifier: Apache-2.0
/*
 * The three clocks in nanoseconds. Samples and side-band carry CLOCK_MONOTONIC, OTLP wants Unix time. The
 * wall clock may be set, and leaps when the machine wakes from suspend: what a time of CLOCK_MONOTONIC is in
 * Unix time depends on when it was. Rank 0.
 */
#ifndef PROFLET_BASE_CLOCK_H
#define PROFLET_BASE_CLOCK_H

#include <stdint.h>

#define NS_PER_MS 1000000ull
#define NS_PER_SEC 1000000000ull

uint64_t clock_mono_ns(void);
uint64_t clock_real_ns(void);
uint64_t clock_thread_cpu_ns(void);
/* CLOCK_REALTIME minus CLOCK_MONOTONIC, now. Good to a microsecond, or less where we are interrupted. */
int64_t clock_real_offset_ns(void);

#define CLOCK_STEPS_MAX 32u    /* that are remembered; the oldest is forgotten first */
#define CLOCK_STEP_NS 100000ll /* less is how well the offset can be read */

/* Offsets of the wall clock, each with when it began to hold. Embedded; zeroed is "none known". */
struct clock_steps {
	unsigned n;
	struct {
		uint64_t from_ns; /* CLOCK_MONOTONIC */
		int64_t offset_ns;
	} v[CLOCK_STEPS_MAX];
};

/* Since `mono_ns`, at the latest, the offset is this; times in ascending order. Returns by how much the wall
 * clock stepped, 0: not at all. */
int64_t clock_steps_note(struct clock_steps *c, uint64_t mono_ns, int64_t offset_ns);
/* Unix time of a time of CLOCK_MONOTONIC, by the offset that held then. One must have been noted. */
uint64_t clock_steps_unix_ns(const struct clock_steps *c, uint64_t mono_ns);

/* A descriptor, the caller's, that becomes readable when the wall clock is set. -errno. */
int clock_watch_open(void);
/* Makes it wait for the next time; call before the offset is read. 0 or -errno. */
int clock_watch_again(int fd);

#endif
