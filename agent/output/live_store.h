// SPDX-License-Identifier: Apache-2.0
/*
 * The inside of output_live. An entry is a function, a process, or a cell: a function in a process. Each has
 * its sums; an interval has a list of what it added to which entry, which is taken off again when the
 * interval leaves the window. Rank 2, private.
 */
#ifndef PROFLET_OUTPUT_LIVE_STORE_H
#define PROFLET_OUTPUT_LIVE_STORE_H

#include "agent/base/buf.h"
#include "agent/base/map.h"
#include "agent/output/live.h"

struct live_count {
	uint64_t self, total; /* a process and a cell have self only */
};

struct live_entry {
	struct map_node node;
	struct live_count window, ever;
	uint64_t interval; /* the last that it was counted in */
	size_t at;	   /* its place in that one's list */
	uint64_t stack;	   /* the last that it was counted for: recursion counts once */
	size_t n_cells;	   /* that point here */
	size_t row;	   /* scratch of output_live_rows: 1 + the row's index */
};

struct live_function {
	struct live_entry entry;
	enum frame_kind kind;
	size_t len; /* of name and module, with their NULs */
	const char *module;
	char name[];
};

struct live_process {
	struct live_entry entry;
	uint32_t pid;
	size_t len; /* of the three texts, with their NULs */
	const char *container, *container_name;
	char comm[];
};

struct live_cell {
	struct live_entry entry;
	struct live_function *function;
	struct live_process *process;
};

struct live_delta {
	struct live_entry *entry; /* is in the window, and therefore not forgotten */
	struct live_count count;
};

struct live_interval {
	struct live_delta *deltas; /* owned */
	size_t n, cap;
	uint64_t ns, arrived, samples, incomplete;
};

struct output_live {
	uint64_t window_ns;
	struct map functions, processes, cells;
	struct live_function *other_function; /* in no map */
	struct live_process *other_process;
	struct live_interval *intervals; /* oldest first; the last one is under way */
	size_t n_intervals, cap_intervals, n_deltas;
	uint64_t interval, stack; /* numbers of those under way */
	struct output_live_sums window, ever;
	struct buf key;
};

/* live_store.c. init: 0 or -ENOMEM, fini is due in both cases. */
int live_store_init(struct output_live *l, const struct output_live_options *o);
void live_store_fini(struct output_live *l);
/* What it is of, made if it is new; other_function, other_process where there is no room. */
struct live_function *live_function_of(struct output_live *l, const struct frame *frame);
struct live_process *live_process_of(struct output_live *l, const struct output_stack *s);
/* NULL: no room; then the pair is not told of, its parts are. */
struct live_cell *live_cell_of(struct output_live *l, struct live_process *p, struct live_function *f);

/* live_sweep.c: forgets, where a map is nearly full, the least of what is not in the window. */
void live_sweep(struct output_live *l);

#endif
