// SPDX-License-Identifier: Apache-2.0
/*
 * The data of the live view, for the files that make it: live_entries.c finds and creates entries, live.c
 * counts, live_stacks.c keeps the stacks of the window, live_rows.c and live_calls.c make tables.
 *
 * An entry is a function, a process, or a cell: a function in a process. Each entry has its sums for the
 * window and since the start. Each interval lists what it added to which entry; when the interval leaves the
 * window, that is subtracted again.
 */
#ifndef PROFLET_OUTPUT_LIVE_PRIVATE_H
#define PROFLET_OUTPUT_LIVE_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/buf.h"
#include "agent/base/frame.h"
#include "agent/base/map.h"
#include "agent/output/live.h"

struct live_count {
	uint64_t self, total; /* processes and cells have self only */
};

struct live_entry {
	struct map_node node;
	struct live_count window, ever;
	uint64_t interval; /* number of the latest interval in which it was counted */
	size_t at;	   /* its index in that interval's list */
	uint64_t stack;	   /* number of the latest stack in which it was counted: recursion counts once */
	size_t n_cells;	   /* number of cells that refer to it */
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

/* A frame with everything that a file needs of it. Equal frames of all kept stacks are one. */
struct live_frame {
	struct map_node node;
	size_t refs; /* steps of kept stacks */
	size_t len;  /* of the content, which follows in the same memory */
	struct frame frame;
	struct frame_module module;
};

struct live_step {
	struct live_function *function; /* valid: functions in the window are not removed */
	struct live_frame *frame;	/* a reference; NULL: the step of a stack without frames */
};

/* One allocation. */
struct live_stack {
	struct live_process *process; /* valid, as the functions are */
	const char *thread;
	const uint64_t *times, *mono_ns; /* `count` of each, or NULL */
	uint64_t count;
	uint32_t tid;
	uint16_t cpu;
	bool complete;
	size_t n, bytes;
	struct live_step steps[]; /* leaf first */
};

struct live_delta {
	struct live_entry *entry; /* valid: entries in the window are not removed */
	struct live_count count;
};

struct live_interval {
	struct live_delta *deltas; /* owned */
	size_t n, cap;
	uint64_t ns, arrived, samples, incomplete;
	struct live_stack **stacks; /* owned, as are its items */
	size_t n_stacks, cap_stacks;
	uint64_t unkept; /* samples without a kept stack */
};

struct output_live {
	uint64_t window_ns;
	struct map functions, processes, cells;
	struct map frames;		      /* of kept stacks */
	struct live_function *other_function; /* in no map */
	struct live_process *other_process;
	struct live_interval *intervals; /* oldest first; the last one is the current one */
	size_t n_intervals, cap_intervals, n_deltas;
	uint64_t interval, stack; /* numbers of the current ones */
	struct output_live_sums window, ever;
	struct buf key;
	struct live_step *steps; /* of the current stack, while it is counted; owned */
	size_t cap_steps;
	size_t kept_bytes, max_kept_bytes; /* of stacks and their frames */
};

/* live_entries.c */
int live_store_init(struct output_live *l, const struct output_live_options *o); /* 0 or -ENOMEM */
void live_store_fini(struct output_live *l);
/* The entry, which is created if there is none; without room, the one of "[other]". */
struct live_function *live_function_of(struct output_live *l, const struct frame *frame);
struct live_process *live_process_of(struct output_live *l, const struct output_stack *s);
/* NULL: no room. */
struct live_cell *live_cell_of(struct output_live *l, struct live_process *p, struct live_function *f);
/* The function with these texts, NULL: none. */
struct live_function *live_function_find(struct output_live *l, const char *name, const char *module);

/* live_stacks.c: the last interval takes a stack; the functions of its frames are in l->steps. */
void live_stacks_keep(struct output_live *l, const struct output_stack *s, struct live_process *p, size_t n);
void live_stacks_forget(struct output_live *l, struct live_interval *i);
bool live_stack_in_scope(const struct live_stack *k, const struct output_live_scope *s);

/* The table that is being made. */
struct live_rows {
	struct output_live *l;
	const struct output_live_query *q;
	const struct live_function *function; /* of the scope */
	struct output_live_row *v;	      /* owned */
	size_t n, cap;
};

/* live_rows.c: whether a row has this text in it; a row with these sums: 0 or -ENOMEM. */
bool live_row_wanted(const struct output_live_row *row, const char *filter);
int live_row_new(struct live_rows *r, struct live_entry *e, struct live_count c,
		 struct output_live_row **ret);
int live_row_of_function(struct live_rows *r, struct live_function *f, struct live_count c,
			 struct output_live_row **ret);

/* live_calls.c: tables from the stacks of a scope. *ret_whole: its samples. 0 or -ENOMEM. */
int live_scope_functions(struct live_rows *r, uint64_t *ret_whole);
int live_scope_calls(struct live_rows *r, uint64_t *ret_whole);

#endif
