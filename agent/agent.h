// SPDX-License-Identifier: Apache-2.0
/*
 * The agent: owns every module, starts them in order (open, load, side-band, scan, sampling), stops them in
 * reverse. The caller decides where finished requests go: `run` exports them, `record` writes files. Rank 3.
 */
#ifndef PROFLET_AGENT_H
#define PROFLET_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/metadata.h"
#include "agent/probe/probe.h"
#include "agent/report/report.h"
#include "agent/runtimes.h"
#include "agent/track/track.h"
#include "agent/unwind/completion.h"
#include "bpf/abi.h"

struct agent;
struct config;
struct cut_stack;
struct delivery;
struct loop;
struct otlp_request;
struct output_stack;
struct pod_table;
struct pull_options;
struct sample_view;
struct sampled_task;

struct agent_options {
	const struct config *config;
	/*
	 * Whether a process is sampled; NULL: every process is. `pods`: the kubelet's answer, NULL: there is
	 * none; borrowed for the call.
	 */
	enum select_answer (*select)(const struct process *p, const struct pod_table *pods, void *data);
	void *select_data;
	/* Which samples of a selected process are taken; NULL: all. Borrowed for the call. */
	bool (*wants)(const struct sampled_task *task, const struct sample_view *v, void *data);
	void *wants_data;
	/* The answer depends on control groups, so `select` is called again every second. */
	bool select_moves;
	/* Also resolve source lines and inlined calls, from debug information (agent/symbol/dwarf.h). */
	bool source_lines;
	bool by_cpu;	    /* stacks of different CPUs are given apart */
	uint64_t window_ns; /* 0: a window ends when it is half full, and at the stop */
	/*
	 * All windows go into one request, which is emitted at the stop; meanwhile `spill` takes the bytes
	 * that are complete. Windows wait for their names as long as there is memory.
	 */
	bool recording;
	void (*spill)(const void *bytes, size_t len, void *emit_data);
	void (*emit)(struct otlp_request *request, void *data); /* NULL: no requests are built */
	void *emit_data;
	/* Called with each stack of a window that is sent; borrowed for the call. NULL: not called. */
	void (*stack)(const struct output_stack *stack, void *data);
	void *stack_data;
	unsigned max_pulls; /* of agent_pull, at once */
	/*
	 * Called when a window ends that was sampled at `hz`; returns the frequency of the next window. NULL:
	 * the frequency does not change.
	 */
	uint32_t (*frequency)(uint32_t hz, void *data);
	void *frequency_data;
	struct delivery *delivery; /* which calls the kubelet for names of pods; NULL: there are none */
	uint64_t flush_ns;	   /* maximum wait, at the stop, for the names of the last window */
	/* Maximum wait, before sampling begins, for the tables of processes that already run. */
	uint64_t settle_ns;
};

/* Why a record from the ring did not become a sample: X(name, text). The text is the metric's label. */
#define SAMPLE_DROPS(X)                                                 \
	X(BAD_RECORD, "bad_record")	  /* its bytes are no sample */ \
	X(NO_PROCESS_SLOT, "process_max") /* no room for its process */

enum sample_drop {
#define X(name, text) SAMPLE_DROP_##name,
	SAMPLE_DROPS(X)
#undef X
		SAMPLE_DROPS_N
};

/*
 * Every sample is counted: at any time, taken = emitted + dropped + in_flight. Samples of processes that are
 * not to be sampled are none of these.
 */
struct buf;

struct agent_stats {
	struct probe_sums probe;
	uint64_t received;		  /* records read from the ring */
	uint64_t refused[SAMPLE_DROPS_N]; /* of `received`, by reason */
	uint64_t received_not_selected;	  /* of `received` */
	struct completion_stats completion;
	struct report_stats report;
	struct runtimes_stats runtimes; /* zeros if no frames of language runtimes are wanted */
	struct track_stats track;
	struct metadata_stats metadata;
	uint64_t taken_ever; /* as `taken`, which may fall when samples on their way are found not selected */
	uint64_t not_selected;		    /* samples of processes that are not to be sampled */
	uint64_t taken, dropped, in_flight; /* in_flight: in the ring, in completion and in windows */
	size_t map_bytes;
	uint64_t bpf_run_ns, bpf_runs;	/* of the sampling program, see probe_run_time */
	uint64_t samples_cpu_ns;	/* CPU time of the main loop for samples */
	uint32_t frequency_hz;		/* current sampling frequency */
	uint64_t start_ns, attached_ns; /* CLOCK_MONOTONIC */
	const char *event;
};

/*
 * Loads the program and reads the running processes from /proc. 0, or -errno with *ret_why = a line for the
 * operator (owned). -EPERM: a capability is missing, or a policy forbids it.
 */
int agent_new(struct agent **ret, const struct agent_options *options, char **ret_why);
void agent_free(struct agent *a);
/* The loop, to which the caller adds timers and signals of its own. Borrowed. */
struct loop *agent_loop(struct agent *a);
/* Starts sampling. 0, or -errno as agent_new. */
int agent_start(struct agent *a, char **ret_why);
/* Runs until loop_stop. 0, or the negative result of a callback. */
int agent_run(struct agent *a);
/* Stops sampling, drains the ring, closes the last window and emits it. */
void agent_stop(struct agent *a);
void agent_stats(struct agent *a, struct agent_stats *ret);
/* As runtimes_describe; nothing if no frames of language runtimes are wanted. */
void agent_describe_runtimes(const struct agent *a, struct buf *ret);
/* As runtimes_count; nothing as above. */
void agent_count_runtimes(const struct agent *a, struct runtimes_processes *ret);
/*
 * Appends what is known of a process: its name, whether it is sampled, what its stacks can have. False: no
 * process is known by this pid.
 */
bool agent_describe_process(const struct agent *a, uint32_t pid, struct buf *ret);
/*
 * Requests a profile of what is sampled from now on for that time (agent/report/pulls.h; `from_ns`,
 * `until_ns` and `max_bytes` are set here). 0; -EBUSY: there are options.max_pulls; -EAGAIN: sampling has not
 * begun; -ENOMEM.
 */
int agent_pull(struct agent *a, const struct pull_options *options, uint64_t duration_ns);
/* As pulls_cancel. */
void agent_pull_cancel(struct agent *a, uint64_t number);
/* As report_cut_stacks. */
size_t agent_cut_stacks(const struct agent *a, struct cut_stack *ret, size_t max);
/* The number of samples dropped for one reason, in whichever module; `reason` is the metric's label. */
struct agent_drop {
	const char *reason; /* static string */
	uint64_t n;
};
#define AGENT_DROPS_MAX (PROBE_COUNTERS_N + SAMPLE_DROPS_N + REPORT_DROPS_N)
/* Lists every reason; the sum of the numbers is `dropped`. Returns how many reasons there are. */
size_t agent_drops(const struct agent_stats *s, struct agent_drop ret[static AGENT_DROPS_MAX]);
/* Appends " dropped_REASON=N" for each reason for which samples were dropped. */
int agent_format_drops(const struct agent_stats *s, struct buf *b);
/* Appends how many stacks were sent without frames in the middle, and how many frames in all; if any. */
int agent_format_omitted(const struct agent_stats *s, struct buf *b);
/*
 * Appends " ending_REASON=N" for each way in which unwinds ended, with underscores for spaces, and what
 * agent_format_omitted appends.
 */
int agent_format_endings(const struct agent_stats *s, struct buf *b);

#endif
