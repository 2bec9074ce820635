// SPDX-License-Identifier: Apache-2.0
/*
 * What ran in the last seconds, and since the start: samples by function, by process, and by both, for a
 * screen that is drawn again and again. It is told stacks, and after each interval how long that was; what is
 * older than the window leaves the sums of the window. Copies what it keeps, with cleaned names (text.h).
 *
 * Memory is bounded: at a maximum those with the fewest samples since the start are forgotten, unless they
 * are of the window, and their samples counted; what finds no room all the same counts as "[other]". Rank 2:
 * includes agent/base only. Not thread safe.
 */
#ifndef PROFLET_OUTPUT_LIVE_H
#define PROFLET_OUTPUT_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/frame.h"
#include "agent/output/profile.h"

struct output_live;

struct output_live_options {
	uint64_t window_ns;
	size_t max_functions, max_processes, max_cells; /* 0: OUTPUT_LIVE_MAX_… */
};

#define OUTPUT_LIVE_MAX_FUNCTIONS (1u << 15)
#define OUTPUT_LIVE_MAX_PROCESSES (1u << 13)
#define OUTPUT_LIVE_MAX_CELLS (1u << 16) /* a function in which a process spent time */
#define OUTPUT_LIVE_MAX_NAME 512	 /* bytes; longer ones are cut */

/* 0 or -ENOMEM. */
int output_live_new(struct output_live **ret, const struct output_live_options *options);
void output_live_free(struct output_live *l);
/* Its samples are in the sums in every case. */
void output_live_add(struct output_live *l, const struct output_stack *s);
/*
 * An interval is over: so long since the last one was, or since the start. `arrived`: samples that came in
 * it, although some may be told of later, when their names are known.
 */
void output_live_tick(struct output_live *l, uint64_t interval_ns, uint64_t arrived);

/* Of the window, or since the start. */
struct output_live_sums {
	uint64_t samples, incomplete; /* incomplete: the unwind did not reach the root */
	uint64_t duration_ns;	      /* of the intervals that are over */
	uint64_t arrived;	      /* in these */
	size_t n_processes;	      /* that ran */
	/* since the start, in both: */
	uint64_t merged;	      /* counted as "[other]" */
	uint64_t forgotten_functions; /* samples that ended in functions, or were of processes, */
	uint64_t forgotten_processes; /* that have been forgotten */
};
void output_live_sums(const struct output_live *l, bool since_start, struct output_live_sums *ret);

enum output_live_view {
	OUTPUT_LIVE_FUNCTIONS,
	OUTPUT_LIVE_PROCESSES,
	OUTPUT_LIVE_CONTAINERS,
	OUTPUT_LIVE_VIEWS_N
};

struct output_live_query {
	enum output_live_view view;
	bool by_total;	    /* functions: sorted by their total, else by self */
	bool since_start;   /* else the window */
	const char *filter; /* rows in which this text occurs, in any case of letters; "" or NULL: all */
};

/* Strings are "" where there is none, and borrowed until the next add, tick or free. */
struct output_live_row {
	const char *name;	    /* function; process; "" for a container */
	const char *module;	    /* functions: where it is from */
	const char *container;	    /* 64 hex digits, "": the host; functions: where it ran most */
	const char *container_name; /* of that container */
	bool elsewhere;		    /* functions: it ran in other containers, too */
	const char *top;	    /* processes, containers: the function with most samples of its own, */
	uint64_t top_self;	    /* and how many */
	uint32_t pid, n_processes;
	enum frame_kind kind;
	uint64_t self, total;
	uint64_t most; /* of the process that `container` is of */
};

struct output_live_rows {
	struct output_live_row *rows; /* owned; most samples first */
	size_t n;
};

/* 0 or -ENOMEM (*ret is empty). */
int output_live_rows(struct output_live *l, const struct output_live_query *q, struct output_live_rows *ret);
void output_live_rows_fini(struct output_live_rows *r);

#endif
