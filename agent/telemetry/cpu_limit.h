// SPDX-License-Identifier: Apache-2.0
/*
 * cpu.max: the sampling rate that keeps what the agent costs below it. A lower rate makes samples cheaper,
 * and nothing else: what starts of processes, tables and names take does not depend on it. So when these take
 * much, samples keep half of cpu.max all the same, and the log says what goes beyond it. Rank 3.
 */
#ifndef PROFLET_CPU_LIMIT_H
#define PROFLET_CPU_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

struct agent;
struct otlp_exporter;

#define CPU_LIMIT_LOOK_NS 10000000000ull   /* between two looks, at least */
#define CPU_LIMIT_SETTLE_NS 30000000000ull /* before the first: tables are made of all that runs */

/* CPU time since the start, in nanoseconds. */
struct cpu_use {
	uint64_t samples_ns; /* of what comes with each sample: taken in the kernel, kept, sent */
	uint64_t all_ns;     /* with all else */
};

/* Embedded. */
struct cpu_limit {
	double max; /* of one CPU: 0.05 */
	uint32_t wanted_hz;
	/* of the last look */
	uint64_t looked_ns; /* CLOCK_MONOTONIC; 0: there was none */
	struct cpu_use used;
	double samples, other; /* shares of one CPU since the look before */
	unsigned n_beyond;     /* looks in a row at which `other` alone was more than max */
};

/*
 * Whether a look is due at `now_ns`, and if so, what `used` by then means for the rate: returns the one that
 * is right from now on, 1 to wanted_hz, or `hz`, which was in use since the look before. Pure.
 */
uint32_t cpu_limit_look(struct cpu_limit *l, uint64_t now_ns, struct cpu_use used, uint32_t hz);
/* The same for this agent and its exporter, now, which sample at `hz`; the log tells of changes. */
uint32_t cpu_limit_ask(struct cpu_limit *l, uint32_t hz, struct agent *a, struct otlp_exporter *x);

#endif
