// SPDX-License-Identifier: Apache-2.0
/* The processes behind parser.h: the keeper, the nursery and what it forks. Private to parser/. */
#ifndef PROFLET_PARSER_NURSERY_H
#define PROFLET_PARSER_NURSERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct parser_operation;

/* Shared memory that the keeper and the nursery write and the agent reads, atomically. */
struct nursery_counts {
	uint64_t cpu_ns;   /* of processes that have ended */
	uint64_t replaced; /* nurseries that have ended by themselves */
	int32_t pid;	   /* of the nursery */
};

/* Processes at a time: more than the agent has threads for. */
#define NURSERY_CHILDREN_MAX 128u
#define NURSERY_URGENT_LEVEL 1 /* of SCHED_RR */
/* Where the policy is SCHED_DEADLINE. To fork takes a fraction of a millisecond. */
#define NURSERY_RUNTIME_NS 5000000u
#define NURSERY_PERIOD_NS 100000000u

/*
 * What the keeper does, in its own process, until the other end of `control` is closed: forks a nursery, and
 * another one when that has ended, since the kernel may kill it when memory is short. `control` is the only
 * open descriptor but the standard ones. `opens`: its processes may open files, and read none. Does not
 * return.
 */
void nursery_keep(int control, const struct parser_operation *const *operations, size_t n,
		  struct nursery_counts *counts, bool opens) __attribute__((noreturn));

#endif
