// SPDX-License-Identifier: Apache-2.0
/*
 * Samples by function, by process and by container, in the last seconds (the window) and since the start, for
 * a screen that is redrawn at intervals. The caller adds stacks, and after each interval passes its length.
 * Intervals older than the window are subtracted from its sums. The stacks of the window are kept whole, to
 * look into a process, a container or a function, and to write a recording of them. Strings are copied; those
 * of rows are cleaned (display_text.h).
 *
 * Memory is bounded: near a maximum, the entries outside the window with the fewest samples are removed, and
 * their samples are counted as forgotten. If there is still no room, samples are counted as "[other]". Of
 * kept stacks, the oldest are given up, and counted. Not thread safe.
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
	size_t max_kept_bytes;				/* of the window's stacks; 0: as above */
};

#define OUTPUT_LIVE_MAX_FUNCTIONS (1u << 15)
#define OUTPUT_LIVE_MAX_PROCESSES (1u << 13)
#define OUTPUT_LIVE_MAX_CELLS (1u << 16) /* pairs of a process and a function that ran in it */
#define OUTPUT_LIVE_MAX_KEPT_BYTES (64u << 20)
#define OUTPUT_LIVE_MAX_NAME 512 /* bytes; longer ones are cut */

/* 0 or -ENOMEM. */
int output_live_new(struct output_live **ret, const struct output_live_options *options);
void output_live_free(struct output_live *l);
/* Counts the stack. Its samples are always added to the sums. */
void output_live_add(struct output_live *l, const struct output_stack *s);
/*
 * Ends an interval of this length. `arrived`: samples that arrived in it; some of them may be added later,
 * when their names are known.
 */
void output_live_tick(struct output_live *l, uint64_t interval_ns, uint64_t arrived);

/* Sums of the window, or since the start. */
struct output_live_sums {
	uint64_t samples, incomplete; /* incomplete: the unwind did not reach the root */
	uint64_t duration_ns;	      /* of the intervals that have ended */
	uint64_t arrived;	      /* samples that arrived in these */
	size_t n_processes;	      /* processes that ran */
	uint64_t unkept;	      /* window only: samples whose stacks are not kept */
	/* since the start, in both: */
	uint64_t merged;	      /* counted as "[other]" */
	uint64_t forgotten_functions; /* samples of functions and of processes */
	uint64_t forgotten_processes; /* that have been removed */
};
void output_live_sums(const struct output_live *l, bool since_start, struct output_live_sums *ret);

enum output_live_view {
	OUTPUT_LIVE_FUNCTIONS,
	OUTPUT_LIVE_PROCESSES,
	OUTPUT_LIVE_CONTAINERS,
	OUTPUT_LIVE_VIEWS_N
};

/*
 * A part of the window, to look at from within: a process, a container, or the callers and callees of a
 * function in one of these or anywhere. Texts are those of rows.
 */
struct output_live_scope {
	const char *process;   /* name; NULL: any */
	uint32_t pid;	       /* of `process` */
	const char *container; /* as in rows, "": the host; NULL: any */
	const char *function;  /* NULL: all functions */
	const char *module;    /* of `function` */
};

struct output_live_query {
	enum output_live_view view;
	const struct output_live_scope *scope; /* NULL: everything; else functions, of the window */
	bool by_total;			       /* functions: sorted by their total, else by self */
	bool since_start;		       /* else the window */
	const char *filter; /* only rows that contain this text, ignoring case; "" or NULL: all */
};

/* What a row is to the scope's function. A table has them in this order. */
enum output_live_role {
	OUTPUT_LIVE_ANY, /* there is no such function */
	OUTPUT_LIVE_CALLER,
	OUTPUT_LIVE_ITSELF, /* samples in the function's own code */
	OUTPUT_LIVE_CALLEE,
};

/* Strings are never NULL; "" means none. Borrowed until the next add, tick or free. */
struct output_live_row {
	const char *name;	    /* function; process; "" for a container */
	const char *module;	    /* functions: the binary they are in, or their source file or runtime */
	const char *container;	    /* 64 hex digits, "": the host; functions: where it ran most */
	const char *container_name; /* of that container */
	bool elsewhere;		    /* functions: it ran in other containers, too */
	const char *top;	    /* processes, containers: the function with most samples of its own */
	uint64_t top_self;	    /* how many */
	uint32_t pid, n_processes;
	enum frame_kind kind;
	enum output_live_role role;
	uint64_t self, total; /* callers, callees: samples of the function with them; both are the same */
	uint64_t most;	      /* functions: samples in the process that `container` was taken from */
};

struct output_live_rows {
	struct output_live_row *rows; /* owned; most samples first */
	size_t n;
	uint64_t whole; /* samples of the scope, without one: of the window or since the start */
};

/*
 * 0 or -ENOMEM (*ret is empty). Of a function that calls itself, callers are those of its outermost frame and
 * callees those of its innermost one, so that a stack counts once in each list. What runs in the function
 * itself is in a row between them.
 */
int output_live_rows(struct output_live *l, const struct output_live_query *q, struct output_live_rows *ret);
/* A kept stack, borrowed for the call. `numbers`: of its frames; equal numbers are equal frames. */
typedef int (*output_live_stack_fn)(const struct output_stack *stack, const uint64_t *numbers, void *data);
/*
 * Calls `fn` with each stack that a table is made of: those of the window, in the scope, in which the
 * filter's text occurs; oldest first. 0, -ENOMEM, or the first result below 0.
 */
int output_live_stacks(const struct output_live *l, const struct output_live_query *q,
		       output_live_stack_fn fn, void *data);
/* The frame with a number; borrowed until the next add or tick. */
struct frame output_live_frame(uint64_t number);
void output_live_rows_fini(struct output_live_rows *r);

#endif
