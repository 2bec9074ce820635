// SPDX-License-Identifier: Apache-2.0
/*
 * Enforces cpu.max: chooses the sampling frequency that keeps the agent's CPU time below this limit. A lower
 * frequency reduces only the cost of samples; the cost of new processes, tables and names does not depend on
 * it. So samples may always use half of cpu.max, and the log reports when the total exceeds it. What a tenant
 * makes the agent waste, by files that crash or occupy their parser processes, lowers no frequency:
 * all other tenants would pay for it. Such files are not read again, and their tenant waits (quarantine.h).
 */
#ifndef PROFLET_CPU_LIMIT_H
#define PROFLET_CPU_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

struct agent;
struct delivery;

#define CPU_LIMIT_LOOK_NS 10000000000ull /* minimum time between two looks */
#define CPU_LIMIT_SETTLE_NS \
	30000000000ull /* before the first look, while tables of all running processes are built */

/* CPU time since the start, in nanoseconds. */
struct cpu_use {
	uint64_t samples_ns; /* on samples: taking them in the kernel, keeping and sending them */
	uint64_t all_ns;     /* on everything */
	uint64_t wasted_ns;  /* of it, on files that did not let themselves be read (parser_stats) */
};

/* Embedded; the caller sets max and wanted_hz. */
struct cpu_limit {
	double max; /* as a ratio of one CPU: 0.05 */
	uint32_t wanted_hz;
	/* at the last look: */
	uint64_t looked_ns; /* CLOCK_MONOTONIC; 0: there was none */
	struct cpu_use used;
	double samples, other, wasted; /* ratios of one CPU since the previous look; other: without wasted */
	unsigned n_beyond;	       /* consecutive looks at which other and wasted alone exceeded max */
};

/*
 * If a look is due at `now_ns`, compares `used` with the previous look and returns the frequency to use from
 * now on, from 1 to wanted_hz; else returns `hz`, which was in use since the previous look. Pure.
 */
uint32_t cpu_limit_look(struct cpu_limit *l, uint64_t now_ns, struct cpu_use used, uint32_t hz);
/* The same for this agent and its delivery process; `hz`: of its samples now. Logs changes. */
uint32_t cpu_limit_update(struct cpu_limit *l, uint32_t hz, struct agent *a, struct delivery *x);

#endif
