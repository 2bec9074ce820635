// SPDX-License-Identifier: Apache-2.0
/*
 * Detects that sampling has stalled: no samples arrive while the host's CPUs are busy. Idle CPUs give no
 * samples, so a period without samples alone means nothing.
 */
#ifndef PROFLET_STALL_H
#define PROFLET_STALL_H

#include <stdbool.h>
#include <stdint.h>

#define STALL_PERIOD_NS 2000000000ull
#define STALL_PERIODS 3u

/* Zeroed before use. */
struct stall {
	bool looked, stalled;
	uint64_t taken, busy_ns; /* at the last look */
	uint64_t lost_busy_ns,
		lost_looks; /* since the last sample: busy time of the CPUs, number of periods */
};

/* Busy time of all CPUs since boot in nanoseconds, from the first line of /proc/stat. 0 or -EBADMSG. Pure. */
int stall_parse_busy(const char *stat, uint64_t *ret_ns);
/* The same from the file. 0 or -errno. */
int stall_read_busy(uint64_t *ret_ns);
/*
 * Call every STALL_PERIOD_NS. Sampling has stalled when no sample was taken in STALL_PERIODS periods in which
 * the CPUs were busy enough for many.
 */
void stall_look(struct stall *s, uint64_t taken, uint64_t busy_ns, uint32_t frequency_hz);

#endif
