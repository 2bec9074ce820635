// SPDX-License-Identifier: Apache-2.0
/* What the agent itself costs, and whether its sampling goes on. Rank 3. */
#ifndef PROFLET_SELFSTAT_H
#define PROFLET_SELFSTAT_H

#include <stdbool.h>
#include <stdint.h>

struct selfstat {
	uint64_t cpu_ns;		     /* of the process, user and system */
	uint64_t resident_bytes, open_files; /* 0: could not be read */
};

void selfstat_read(struct selfstat *ret);

#define WATCH_PERIOD_NS 2000000000ull
#define WATCH_PERIODS 3u

/*
 * Whether samples come while the host's CPUs work. Idle CPUs give none, so no sample alone says nothing.
 * Zeroed is fine.
 */
struct watch {
	bool looked, stalled;
	uint64_t taken, busy_ns;	   /* at the last look */
	uint64_t lost_busy_ns, lost_looks; /* since the last sample: work of the CPUs, periods */
};

/* Work of all CPUs since boot, of /proc/stat's first line, in nanoseconds. 0 or -EBADMSG. Pure. */
int watch_parse_busy(const char *stat, uint64_t *ret_ns);
/* The same from the file. 0 or -errno. */
int watch_read_busy(uint64_t *ret_ns);
/*
 * To be called every WATCH_PERIOD_NS. Stalled: no sample was taken in WATCH_PERIODS periods in which the CPUs
 * did work enough for many.
 */
void watch_look(struct watch *w, uint64_t taken, uint64_t busy_ns, uint32_t frequency_hz);

#endif
