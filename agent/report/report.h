// SPDX-License-Identifier: Apache-2.0
/*
 * Samples → OTLP: collects samples whose stacks are final for a window, finds the names of their functions,
 * and builds what goes out: export requests, and weighted stacks for recordings. Main loop only.
 */
#ifndef PROFLET_REPORT_H
#define PROFLET_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/abi.h"

struct binary_registry;
struct config;
struct otlp_request;
struct output_stack;
struct pod_table;
struct report;
struct sample_view;
struct sampled_task;
struct unwind_tables;
struct worker;

/* Why a sample did not leave the report: X(name, text). The text is the metric's label. */
#define REPORT_DROPS(X)                                           \
	X(WINDOW_FULL, "window_full") /* no room in the window */ \
	X(ENCODE, "encode")	      /* no memory for the request, or a stack too large for any */

enum report_drop {
#define X(name, text) REPORT_DROP_##name,
	REPORT_DROPS(X)
#undef X
		REPORT_DROPS_N
};

const char *report_drop_text(enum report_drop reason);

struct report_options {
	const struct config *config;
	struct binary_registry *binaries;   /* that frames are of */
	const struct unwind_tables *tables; /* NULL: none is being built */
	struct worker *worker;
	const struct pod_table *pods; /* NULL: nothing is known of pods */
	size_t window_bytes;	      /* of samples that wait for the window's end */
	size_t max_request_bytes;     /* 0: what receivers accept */
	bool source_lines;	      /* of debug information, too; symbol_dwarf_load has been called */
	/* Takes a finished request (ownership moves). Never fails: what cannot be sent is counted over there.
	 * NULL: no requests are built, and what goes to `stack` counts as emitted. */
	void (*emit)(struct otlp_request *request, void *data);
	void *emit_data;
	/* Takes each stack of a window that is sent; borrowed for the call. NULL: nobody wants them. */
	void (*stack)(const struct output_stack *stack, void *data);
	void *stack_data;
};

struct report_stats {
	uint64_t added; /* samples */
	uint64_t dropped[REPORT_DROPS_N];
	uint64_t waiting;		/* samples in windows that are not sent yet */
	uint64_t emitted;		/* samples in requests that were handed to emit */
	uint64_t by_ending[ENDINGS];	/* of the samples added */
	uint64_t windows, windows_late; /* closed; of these, sent before all names were there */
	uint64_t windows_cpu_ns;	/* what closing and sending them took */
	uint64_t names_bytes;
	uint64_t lines_left;	  /* addresses whose debug information there was no time to read */
	uint64_t first_sample_ns; /* CLOCK_MONOTONIC; 0: none yet */
};

/* Everything in `options` is borrowed and outlives the report. 0 or -errno. */
int report_new(struct report **ret, const struct report_options *options);
void report_free(struct report *r);
/* Takes in a sample with its final stack, and whose it is. Both are borrowed for the call. */
void report_add(struct report *r, const struct sampled_task *task, const struct sample_view *v);
/* Ends the window: its samples are named, by worker threads, and then sent. */
void report_close_window(struct report *r);
/* Samples come at this rate from now on; of a window that has just begun. At first: sampling.frequency. */
void report_set_frequency(struct report *r, uint32_t frequency_hz);
/*
 * The wall clock was set, a moment ago: samples taken from now on have times of the new one, those before
 * keep theirs. Returns by how many nanoseconds it stepped, 0: not at all.
 */
int64_t report_clock_set(struct report *r);
/* After worker_collect: sends the closed window when its names are there. */
void report_progress(struct report *r);
/* Sends the closed window without the names that are not there. */
void report_hurry(struct report *r);
/* Whether a closed window waits for names; whether it has them all. */
bool report_closing(const struct report *r);
bool report_sendable(const struct report *r);
/* The file index will stand for another file. */
void report_forget_file(struct report *r, uint32_t index);
void report_stats(const struct report *r, struct report_stats *ret);

#endif
