// SPDX-License-Identifier: Apache-2.0
/* What a person wants to know of a process whose stacks look odd, for /debug/state/PID. Main loop only. */
#ifndef PROFLET_DESCRIBE_H
#define PROFLET_DESCRIBE_H

struct buf;
struct process;
struct runtimes;
struct unwind_tables;

/*
 * Appends lines: the process's name, whether it is sampled, which of its files have an unwind table, and
 * which language runtimes it has, with why functions of some are not shown. `runtimes` NULL: none are wanted.
 */
void process_describe(const struct process *p, const struct unwind_tables *tables,
		      const struct runtimes *runtimes, struct buf *ret);

#endif
