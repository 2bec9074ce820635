// SPDX-License-Identifier: Apache-2.0
/*
 * Compares two recordings, function by function: which share of the samples each has in the one and in the
 * other, and how far the difference may be noise. Shares do not depend on how long the recordings were.
 *
 * The intervals are made by bootstrap. Samples come in bursts, so that where a recording has their times, it
 * is cut into blocks of equal time, and the blocks are drawn; else each sample counts as independent of the
 * others, which makes the intervals too small for a load that changes.
 */
#ifndef PROFLET_RECORDING_COMPARISON_H
#define PROFLET_RECORDING_COMPARISON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/recording/recording_types.h"

#define COMPARISON_FUNCTIONS_MAX (1u << 18)
#define COMPARISON_BLOCKS 32u
#define COMPARISON_DRAWS 400u /* the first of them is the recording itself */
#define COMPARISON_LEAST 5e-3 /* a smaller difference does not count: machines differ from run to run */

enum comparison_side { COMPARISON_A, COMPARISON_B, COMPARISON_SIDES };

struct comparison;

/* A function. Shares are of 1; strings are the comparison's. */
struct comparison_row {
	const char *name, *origin; /* its module, or source file; "" */
	double a, b;		   /* its share in each */
	double low, high;	   /* 95 % interval of b - a */
	/*
	 * The difference is beyond noise: it would be seen in one of 20 comparisons at most if no function of
	 * the recordings had changed, and it is not below COMPARISON_LEAST.
	 */
	bool certain;
};

/* `names_only`: functions of equal names are one, wherever they are; for files that do not say where. */
int comparison_new(struct comparison **ret, bool names_only);
void comparison_free(struct comparison *c); /* NULL is fine */
/*
 * Says when the samples of a side lie in time, in ns since 1970, before they are added. Without it, or with
 * 0, 0, their times are not known.
 */
void comparison_set_times(struct comparison *c, enum comparison_side side, uint64_t from, uint64_t to);
/*
 * Adds a stack; `per_sample` is how much of its value a sample is (1 where values count samples). 0; -ENOSPC:
 * there are too many functions, the stack counts without those that are new; -ENOMEM.
 */
int comparison_add(struct comparison *c, enum comparison_side side, const struct recording_stack *s,
		   uint64_t per_sample);
/*
 * The functions with a share in either, those whose share certainly grew first, then those whose share
 * certainly shrank, then the others; each by the size of the difference. `total`: a function's share has
 * what it calls, too. *ret is owned by the caller. 0 or -ENOMEM.
 */
int comparison_rows(const struct comparison *c, bool total, struct comparison_row **ret, size_t *ret_n);
/* Whether a side has times. */
bool comparison_has_times(const struct comparison *c, enum comparison_side side);
/* All samples of a side that were added. */
double comparison_samples(const struct comparison *c, enum comparison_side side);
/* So many standard deviations of a difference are beyond noise; `total` as of comparison_rows. */
double comparison_limit(const struct comparison *c, bool total);

/* --- for those who compare something else than functions in the same way */

/* The block of a side's time. */
unsigned comparison_block(const struct comparison *c, enum comparison_side side, uint64_t time);
/*
 * How often each draw after the first has each block. False: blocks do not tell how much a share varies, each
 * sample counts as independent.
 */
bool comparison_weights(const struct comparison *c, enum comparison_side side,
			uint8_t ret[COMPARISON_DRAWS - 1][COMPARISON_BLOCKS]);

#endif
