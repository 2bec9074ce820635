// SPDX-License-Identifier: Apache-2.0
/*
 * How long the agent's threads ran, and how long they waited for a CPU, and whether the agent is starved: it
 * could run, but others have the CPUs. Its share of busy CPUs follows from the CPU request of its container.
 *
 * The kernel counts both for each thread (schedstat). What a thread did between the last reading and its end
 * is missing; the agent's threads live long.
 */
#ifndef PROFLET_CPU_WAIT_H
#define PROFLET_CPU_WAIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CPU_WAIT_READ_NS 10000000000ull	  /* time between two calls of cpu_wait_update */
#define CPU_WAIT_PERIOD_NS 60000000000ull /* over which "starved" is decided */
#define CPU_WAIT_QUIET_NS 600000000000ull /* minimum time between two warnings */

struct cpu_time {
	uint64_t run_ns, wait_ns; /* on a CPU; ready to run, but without one */
};

/* Since the start of the agent. Never falls. */
struct cpu_wait_times {
	struct cpu_time main, others; /* main thread; all others, including those that have ended */
	bool known;		      /* false: this kernel does not count it (CONFIG_SCHED_INFO) */
	bool starved;		      /* in the last period, see cpu_wait_look */
};

struct cpu_wait_thread;

/* Initialise with cpu_wait_init. Not thread safe. */
struct cpu_wait {
	struct cpu_wait_times times; /* for readers */
	pid_t main_tid;
	struct cpu_wait_thread *threads; /* as last read */
	size_t n, cap;
	unsigned readings;
	/* the last period: when it ended, the sum of all threads then, its length, what they did in it */
	uint64_t ended_ns;
	struct cpu_time at_end;
	uint64_t length_ns;
	struct cpu_time in_period;
	bool warned; /* of the current starvation */
	uint64_t warned_ns;
};

/* `now_ns`: CLOCK_MONOTONIC, at which the first period begins. */
void cpu_wait_init(struct cpu_wait *w, pid_t main_tid, uint64_t now_ns);
/* NULL is not allowed, a zeroed struct is. */
void cpu_wait_fini(struct cpu_wait *w);

/*
 * Brings w->times up to date; `task` is the folder /proc/self/task, except in tests. 0, or -errno: some
 * threads were not read, and the next call adds what they did.
 */
int cpu_wait_read(struct cpu_wait *w, const char *task);

enum cpu_wait_change { CPU_WAIT_UNCHANGED, CPU_WAIT_BEGAN, CPU_WAIT_ENDED };
/*
 * If a period has passed at `now_ns`, decides from w->times whether the agent was starved in it: its threads
 * together waited more than four times as long as they ran, and for more than a quarter of the period. It is
 * no longer starved when a period has less than half of either. An agent with little to do waits little, also
 * where the CPUs are busy.
 *
 * Returns what to report: that starvation began, at most once in CPU_WAIT_QUIET_NS, and that one which was
 * reported has ended. Pure.
 */
enum cpu_wait_change cpu_wait_look(struct cpu_wait *w, uint64_t now_ns);

/* Reads and looks at this process, and logs what changed. */
void cpu_wait_update(struct cpu_wait *w);
/* Reads this process, for a page that shows w->times. */
void cpu_wait_refresh(struct cpu_wait *w);

#endif
