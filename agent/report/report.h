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
#define REPORT_DROPS(X)                                                               \
	X(WINDOW_FULL, "window_full") /* no memory for it, or larger than a window */ \
	X(ENCODE, "encode")	      /* no memory for the request, or a stack too large for any */

enum report_drop {
#define X(name, text) REPORT_DROP_##name,
	REPORT_DROPS(X)
#undef X
		REPORT_DROPS_N
};

const char *report_drop_text(enum report_drop reason);

/* The clocks; NULL members are those of agent/base/clock.h. */
struct report_clock {
	uint64_t (*mono_ns)(void);
	int64_t (*real_offset_ns)(void);
};

struct report_options {
	const struct config *config;
	struct binary_registry *binaries;   /* that frames are of */
	const struct unwind_tables *tables; /* NULL: none is being built */
	struct worker *worker;
	const struct pod_table *pods; /* NULL: nothing is known of pods */
	size_t window_bytes;	      /* of the open window, and of the closed one */
	size_t max_request_bytes;     /* 0: what receivers accept */
	bool source_lines;	      /* also those of debug information; symbol_dwarf_load has been called */
	const char *kallsyms;	      /* NULL: /proc/kallsyms */
	struct report_clock clock;
	/*
	 * All windows go into one request, which report_finish emits, and which max_request_bytes bounds
	 * without the encoded profiles: `spill` takes those as they are completed, as the beginning of its
	 * bytes.
	 */
	bool one_request;
	void (*spill)(const void *bytes, size_t len, void *emit_data);
	/* Takes a finished request (ownership moves). NULL: no requests are built, and samples count as
	 * emitted when their window is sent. */
	void (*emit)(struct otlp_request *request, void *data);
	void *emit_data;
	/* Takes each stack of a window that is sent; borrowed for the call. NULL: nobody wants them. */
	void (*stack)(const struct output_stack *stack, void *data);
	void *stack_data;
};

struct report_stats {
	uint64_t added; /* samples */
	uint64_t dropped[REPORT_DROPS_N];
	uint64_t waiting; /* samples in windows that are not sent, or in a request that is not emitted */
	uint64_t emitted; /* samples in requests that were handed to emit */
	uint64_t by_ending[ENDINGS]; /* of the samples added */
	uint64_t windows;	     /* closed; of these */
	uint64_t windows_early;	     /* closed because they had many samples */
	uint64_t windows_late;	     /* sent before all names were there */
	uint64_t windows_cpu_ns;     /* what sending them took */
	uint64_t names_bytes;
	uint64_t lines_left;	  /* addresses whose debug information there was no time to read */
	uint64_t first_sample_ns; /* CLOCK_MONOTONIC; 0: none yet */
};

/* Everything in `options` is borrowed and outlives the report. 0 or -errno. */
int report_new(struct report **ret, const struct report_options *options);
/* When no job is with the workers. NULL is fine. */
void report_free(struct report *r);
/*
 * Takes in a sample with its final stack, and whose it is. Both are borrowed for the call. A window that is
 * half full is closed early, unless the one before still waits for names; a full one in any case.
 */
void report_add(struct report *r, const struct sampled_task *task, const struct sample_view *v);
/* Closes the window: its names are requested from the workers. One that is closed already is sent first. */
void report_close_window(struct report *r);
/* Whether a closed window is not sent yet. */
bool report_closing(const struct report *r);
/* Whether it should be now: it has its names, or the open one needs its room. */
bool report_sendable(const struct report *r);
/* After worker_collect: requests names that could not be requested before. */
void report_progress(struct report *r);
/*
 * Sends the closed window, if there is one, with the names that are there. What was read from /proc of a
 * process that had ended by then is taken back by process events: take those in first.
 */
void report_send(struct report *r);
/* At the end, after the last window was sent: emits the one request. */
void report_finish(struct report *r);
/* Samples come at this rate from now on; call it when a window has just begun. At first: sampling.frequency.
 */
void report_set_frequency(struct report *r, uint32_t frequency_hz);
/*
 * The wall clock was set: samples taken from now on have times of the new one, those before keep theirs.
 * Returns by how many nanoseconds it stepped, 0: not at all.
 */
int64_t report_clock_set(struct report *r);
/* The index is about to stand for another binary. */
void report_forget_file(struct report *r, uint32_t index);
void report_stats(const struct report *r, struct report_stats *ret);

#endif
