// SPDX-License-Identifier: Apache-2.0
/*
 * Samples → OTLP: collects samples with their final stacks in windows, finds the names of their functions,
 * and builds export requests from them, and weighted stacks for recordings. Main loop only.
 *
 * There are two windows: the open one, to which samples are added, and a closed one, which waits for names.
 */
#ifndef PROFLET_REPORT_H
#define PROFLET_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/runtime/code_names.h"
#include "agent/symbol/jit.h"
#include "bpf/abi.h"

struct binary_registry;
struct config;
struct cut_stack;
struct otlp_request;
struct output_stack;
struct pod_table;
struct process;
struct pulls;
struct report;
struct sample_view;
struct sampled_task;
struct unwind_tables;
struct worker;

/* Why a sample was dropped here: X(name, text). The text is the label of the metric. */
#define REPORT_DROPS(X)                                                              \
	X(WINDOW_FULL, "window_full") /* it is larger than a window, or no memory */ \
	X(ENCODE, "encode")	      /* no request can hold it, or no memory for one */

enum report_drop {
#define X(name, text) REPORT_DROP_##name,
	REPORT_DROPS(X)
#undef X
		REPORT_DROPS_N
};

const char *report_drop_text(enum report_drop reason);

/* NULL members stand for the clocks of agent/base/clock.h. */
struct report_clock {
	uint64_t (*mono_ns)(void);
	int64_t (*real_offset_ns)(void);
};

struct report_options {
	const struct config *config;
	struct binary_registry *binaries; /* by whose indices frames name their binaries */
	struct unwind_tables *tables;	  /* NULL: no unwind tables are built */
	struct worker *worker;
	struct worker *lists;	       /* as names_options; may be NULL */
	const struct pod_table *pods;  /* NULL: pods have no names */
	size_t window_bytes;	       /* maximum of each of the two windows */
	size_t max_request_bytes;      /* 0: OTLP_BATCH_MAX_BYTES, what receivers accept */
	bool source_lines;	       /* file, line and inlined calls; symbol_dwarf_load has been called */
	bool by_cpu;		       /* stacks of different CPUs are given apart */
	const char *kallsyms;	       /* NULL: /proc/kallsyms */
	struct code_names *code_names; /* functions of language runtimes; NULL: none are known */
	struct report_clock clock;
	/*
	 * All windows become one request, which report_finish emits. It may be larger than memory: `spill`
	 * gets encoded profiles as they are completed. These bytes in their order, followed by those of the
	 * emitted request, are the whole request. max_request_bytes limits only what was not spilled.
	 */
	bool one_request;
	void (*spill)(const void *bytes, size_t len, void *emit_data);
	/*
	 * Takes a finished request (ownership moves). NULL: no requests are built, and samples count as
	 * emitted when their window is sent.
	 */
	void (*emit)(struct otlp_request *request, void *data);
	void *emit_data;
	/* Called for each stack of a window that is sent; borrowed for the call. NULL: not called. */
	void (*stack)(const struct output_stack *stack, void *data);
	void *stack_data;
	unsigned max_pulls; /* at once; 0: none is ever requested */
};

struct report_stats {
	uint64_t added; /* samples that report_add was called with */
	uint64_t dropped[REPORT_DROPS_N];
	uint64_t waiting; /* samples in windows that were not sent yet, or in an unfinished request */
	uint64_t emitted; /* samples in requests that were handed to emit */
	uint64_t by_ending[ENDINGS];  /* samples added, by how their unwind ended */
	uint64_t shortened, omitted;  /* stacks without some frames in the middle; those frames */
	uint64_t windows;	      /* windows that were closed */
	uint64_t windows_early;	      /* of these, closed before their time because they were half full */
	uint64_t windows_late;	      /* of these, sent before all names were found */
	uint64_t windows_cpu_ns;      /* CPU time that sending them took */
	uint64_t names_bytes;	      /* memory used by names */
	struct symbol_jit_stats jit;  /* of code that processes generate */
	uint64_t names_changed;	      /* addresses without a name because their file has got other content */
	struct code_names_stats code; /* functions of language runtimes */
	uint64_t unknown_code;	      /* frames of language runtimes without a name */
	uint64_t file_changed;	      /* samples cut where a file may have had other content by then */
	uint64_t lines_left;	      /* addresses whose source lines have not been read */
	uint64_t first_sample_ns;     /* CLOCK_MONOTONIC; 0: none yet */
};

/* All pointers in `options` are borrowed until report_free. 0 or -errno. */
int report_new(struct report **ret, const struct report_options *options);
/* All jobs must have been done before: free the workers first. NULL is fine. */
void report_free(struct report *r);
/* Call it before the workers are freed, which then need not wait for long. NULL is fine. */
void report_stop_reading(struct report *r);
/*
 * Adds a sample with its final stack to the open window. Both arguments are borrowed for the call. If that
 * fills half of the window, the window is closed early, unless the closed one still waits for names; a window
 * that is full is closed in any case.
 */
void report_add(struct report *r, const struct sampled_task *task, const struct sample_view *v);
/* Closes the open window and requests its names. If there is a closed one, sends that before. */
void report_close_window(struct report *r);
/*
 * The same where the time of the open window is over. If names of the closed one are still being read, the
 * open one goes on, for up to a minute, as long as both have room. Returns whether it was closed.
 */
bool report_end_window(struct report *r);
/* Whether there is a closed window that was not sent yet. */
bool report_closing(const struct report *r);
/* Whether it should be sent now: its names are there, or the open window is three quarters full. */
bool report_sendable(const struct report *r);
/* Call after worker_collect: requests names that could not be requested before. */
void report_progress(struct report *r);
/*
 * Sends the closed window, if there is one, with the names that are known. Drain the process events before:
 * they discard what was read from /proc by a pid that was reused.
 */
void report_send(struct report *r);
/* With options.one_request: emits the request. Call once, after the last window was sent. */
void report_finish(struct report *r);
/*
 * Samples are taken at this frequency from now on; the initial one is sampling.frequency. It becomes that of
 * the whole open window, so call this when a window has just begun.
 */
void report_set_frequency(struct report *r, uint32_t frequency_hz);
/*
 * Call when the wall clock was set: the Unix times of samples follow the clock as it was when they were
 * taken. Returns by how many nanoseconds it was set, 0: not at all.
 */
int64_t report_clock_set(struct report *r);
/*
 * The function at a process address, by a list that was read after `since_ns` if it is not in an older one.
 * 0; -EAGAIN: the list is being read, call again after worker_collect; -ENOENT: it is not listed.
 */
int report_code_at(struct report *r, struct process *p, uint64_t address, uint64_t since_ns,
		   struct symbol_jit_code *ret);
/* Where profiles are requested; NULL: options.max_pulls was 0. */
struct pulls *report_pulls(struct report *r);
/* Drops the names of a binary, before its index is given to another one. */
void report_forget_file(struct report *r, uint32_t index);
/* Where the unwind of most incomplete stacks ended: up to `max`, most samples first. Returns how many. */
size_t report_cut_stacks(const struct report *r, struct cut_stack *ret, size_t max);
void report_stats(const struct report *r, struct report_stats *ret);

#endif
