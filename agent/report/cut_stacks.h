// SPDX-License-Identifier: Apache-2.0
/*
 * Where stacks are cut: samples whose unwind did not reach the root, counted by the module of the frame at
 * which it ended, and the reason. A fixed number of counters: when all are taken, a new pair takes over the
 * smallest one with its count (Metwally et al., "space saving"), so that the largest are right to within
 * the smallest.
 */
#ifndef PROFLET_REPORT_CUT_STACKS_H
#define PROFLET_REPORT_CUT_STACKS_H

#include <stddef.h>
#include <stdint.h>

#include "bpf/abi.h"

#define CUT_STACKS_MAX 256u
#define CUT_STACKS_NAME_MAX 64u

struct cut_stack {
	char module[CUT_STACKS_NAME_MAX]; /* file name, shortened; printable */
	enum unwind_ending ending;
	uint64_t samples;
	uint64_t too_many; /* of these, at most so many are of pairs that had the counter before */
};

/* Zeroed at the start. */
struct cut_stacks {
	struct cut_stack v[CUT_STACKS_MAX];
	size_t n;
};

void cut_stacks_add(struct cut_stacks *c, const char *module, enum unwind_ending ending);
/* Copies up to `max` counters, the largest first. Returns how many. */
size_t cut_stacks_top(const struct cut_stacks *c, struct cut_stack *ret, size_t max);

#endif
