// SPDX-License-Identifier: Apache-2.0
/*
 * The agent: owns every module, starts them in order (open, load, side-band, scan, sampling), stops them in
 * reverse. What becomes of the finished requests is the caller's: `run` exports them, `record` writes files.
 * Rank 3.
 */
#ifndef PROFLET_AGENT_H
#define PROFLET_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/metadata.h"
#include "agent/probe/probe.h"
#include "agent/report/report.h"
#include "agent/track/track.h"
#include "agent/unwind/completion.h"
#include "bpf/abi.h"

struct agent;
struct config;
struct loop;
struct otlp_request;
struct output_stack;
struct pod_table;

struct agent_options {
	const struct config *config;
	/* NULL: every process. `pods`: what the kubelet says, NULL: it is not asked; borrowed for the call.
	 */
	enum select_answer (*select)(const struct process *p, const struct pod_table *pods, void *data);
	void *select_data;
	bool select_moves;  /* the answer depends on control groups: asked again every second */
	bool source_lines;  /* and inlined calls, of debug information, too (agent/symbol/dwarf.h) */
	uint64_t window_ns; /* 0: windows end when they are half full, and at the stop */
	/*
	 * All windows go into one request, emitted at the stop; `spill` takes the beginning of its bytes
	 * meanwhile. Windows wait for their names as long as there is memory.
	 */
	bool recording;
	void (*spill)(const void *bytes, size_t len, void *emit_data);
	void (*emit)(struct otlp_request *request, void *data); /* NULL: no requests are built */
	void *emit_data;
	/* Takes each stack of a window that is sent; borrowed for the call. NULL: nobody wants them. */
	void (*stack)(const struct output_stack *stack, void *data);
	void *stack_data;
	/* Asked when a window ends, which was sampled at `hz`: at which rate the next one is to be. NULL: at
	 * the same. */
	uint32_t (*frequency)(uint32_t hz, void *data);
	void *frequency_data;
	uint64_t flush_ns;  /* wait so long, at the stop, for the names of the last window */
	uint64_t settle_ns; /* wait so long for the tables of what runs already, before sampling begins */
};

/* Why a record from the ring did not become a sample: X(name, text). The text is the metric's label. */
#define SAMPLE_DROPS(X)                                                 \
	X(BAD_RECORD, "bad_record")	  /* its bytes are no sample */ \
	X(NO_PROCESS_SLOT, "process_max") /* no room for its process */ \
	X(NOT_SELECTED, "not_selected")	  /* of a process that nobody asked for */

enum sample_drop {
#define X(name, text) SAMPLE_DROP_##name,
	SAMPLE_DROPS(X)
#undef X
		SAMPLE_DROPS_N
};

/* No sample is lost uncounted: taken = emitted + dropped + in_flight, at every moment. */
struct agent_stats {
	struct probe_sums probe;
	uint64_t received;		  /* records from the ring */
	uint64_t refused[SAMPLE_DROPS_N]; /* of these */
	struct completion_stats completion;
	struct report_stats report;
	struct track_stats track;
	struct metadata_stats metadata;
	uint64_t taken, dropped, in_flight; /* in_flight: in the ring, in completion and in windows */
	size_t map_bytes;
	uint64_t bpf_run_ns, bpf_runs;	/* of the sampling program, see probe_run_time */
	uint64_t samples_cpu_ns;	/* that samples took in the main loop */
	uint32_t frequency_hz;		/* that samples are taken at */
	uint64_t start_ns, attached_ns; /* CLOCK_MONOTONIC */
	const char *event;
};

/*
 * Loads the program and reads what runs. 0, or -errno with *ret_why = a line for the operator (owned).
 * -EPERM: a capability or a policy is in the way.
 */
int agent_new(struct agent **ret, const struct agent_options *options, char **ret_why);
void agent_free(struct agent *a);
/* For timers and signals of the caller's. Borrowed. */
struct loop *agent_loop(struct agent *a);
/* Attaches the sampling. 0 or as agent_new. */
int agent_start(struct agent *a, char **ret_why);
/* Runs until loop_stop. */
int agent_run(struct agent *a);
/* Detaches, drains the ring, closes the last window and emits it. */
void agent_stop(struct agent *a);
void agent_stats(struct agent *a, struct agent_stats *ret);
/* What was dropped for one reason, wherever that was; `reason` is the metric's label. */
struct agent_drop {
	const char *reason; /* static string */
	uint64_t n;
};
#define AGENT_DROPS_MAX (PROBE_COUNTERS_N + SAMPLE_DROPS_N + REPORT_DROPS_N)
/* Every reason there is; together they are `dropped`. Returns how many. */
size_t agent_drops(const struct agent_stats *s, struct agent_drop ret[static AGENT_DROPS_MAX]);
/* Appends " dropped_REASON=N" for each reason that has dropped any. */
struct buf;
int agent_format_drops(const struct agent_stats *s, struct buf *b);
/* Appends " ending_REASON=N" for each way that unwinds ended, with underscores for spaces. */
int agent_format_endings(const struct agent_stats *s, struct buf *b);

#endif
