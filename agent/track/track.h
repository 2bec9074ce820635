// SPDX-License-Identifier: Apache-2.0
/*
 * The flow of processes: what runs on the host → its mappings → binaries → unwind tables → what the BPF
 * program reads. Owns the process table, the registry of binaries, the arena, the publisher, and the modules
 * of this folder. Main loop only.
 */
#ifndef PROFLET_TRACK_H
#define PROFLET_TRACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/binary/registry.h"
#include "agent/proc/image.h"
#include "agent/sample/decode.h"
#include "agent/track/gaps.h"
#include "agent/track/generated_code.h"
#include "agent/track/openings.h"
#include "agent/track/process_events.h"
#include "agent/track/process_names.h"
#include "agent/track/process_reader.h"
#include "agent/track/remaps.h"
#include "agent/track/requests.h"
#include "agent/track/select.h"
#include "agent/track/track_host.h"
#include "agent/unwind/arena.h"
#include "agent/unwind/publish.h"
#include "agent/unwind/tables.h"
#include "cgroup/meta.h"

struct track;

struct track_options {
	struct track_host host;
	size_t table_bytes; /* budget of the arena */
	size_t max_processes;
	uint32_t max_files;
	const struct cgroup_observer *cgroup_from; /* cgroup/path.h; borrowed; NULL: from outside of all */
	/*
	 * Functions that a process has generated, as generated_code_options.function. NULL: none are
	 * listed.
	 */
	int (*function)(struct process *p, uint64_t since_ns, struct generated_request *request, void *data);
	/* The same of generated_code_options.machine. */
	bool (*machine)(struct process *p, struct generated_request *request, void *data);
	void *function_data;
	unsigned runtimes; /* as publisher_want_runtimes */
	bool debug_files;  /* look for separate debug files of binaries with incomplete unwind information */
	/* Called whenever the workload of a process was read. NULL */
	void (*workload)(const struct cgroup_meta *m, void *data);
	void *workload_data;
	/* Whether a process is to be sampled. NULL: every one. Called when a process is found in /proc and at
	 * execve; a fork is treated as its parent. */
	enum select_answer (*select)(const struct process *p, void *data);
	void *select_data;
	/* A binary is forgotten: its index will stand for another one. NULL: nothing depends on indices. */
	void (*forget)(uint32_t index, void *data);
	void *forget_data;
};

struct track_stats {
	struct arena_stats arena;
	struct binary_stats binaries;
	struct unwind_tables_stats tables;
	struct publish_stats publish;
	struct process_names_stats names;
	struct process_events_stats events;
	struct process_reader_stats reader;
	struct openings_stats openings;
	struct remaps_stats remaps;
	struct requests_stats requests;
	struct generated_code_stats generated;
	uint64_t processes, processes_full;	 /* known now; refused at the maximum */
	uint64_t events_lost[SIDEBAND_LOSSES_N]; /* by reason */
	uint64_t gaps[GAPS_N]; /* by reason: the process table may have differed from the host */
	uint64_t rescans;      /* of /proc, after that */
};

/* What `options` points to is borrowed and must outlive the track. 0 or -errno. */
int track_new(struct track **ret, const struct track_options *options);
/* After the threads of the host's pools have ended. NULL is fine. */
void track_free(struct track *t);
/* Reads every process of /proc. Call after the source of events is open. 0 or -errno. */
int track_scan(struct track *t);
/*
 * Takes the events that wait, and publishes what has changed. False: nothing was new. Call before the samples
 * of the same time are handled.
 */
bool track_drain(struct track *t);
/* A CPU came online and ran tasks before its events were read: /proc is read again at the next drain. */
void track_events_missed(struct track *t);
/* Whether tables are being built, or files and lists of mappings are being opened and read. */
bool track_working(const struct track *t);
/* Gives up what worker threads and file systems do not bring in time. Call every 100 ms or so. */
void track_check(struct track *t);
/* Publishes new tables and hands out more work. Call after worker_collect. */
void track_progress(struct track *t);
/*
 * Has what is known of language runtimes made first, and blocks until it is known, or the time is over:
 * before sampling starts. track_begin_runtimes may be called earlier, so that threads work meanwhile.
 */
void track_begin_runtimes(struct track *t);
void track_await_runtimes(struct track *t, uint64_t timeout_ns);
/*
 * Blocks until all known binaries have a table, or the time is over. For recordings, before sampling starts.
 */
void track_settle(struct track *t, uint64_t timeout_ns);
/*
 * Finds the process that a sample is of, by pid and time, and what it was called then. Every event up to the
 * sample's time must have been drained. False at the maximum of processes.
 */
bool track_attribute(struct track *t, const struct sample_view *v, struct sampled_task *ret);
/*
 * Decides again for every process whether it is sampled, by the cgroup that it is in now. Call where that may
 * have changed.
 */
void track_reselect(struct track *t);
/* Owned by the track: tables with their binaries, the memory that they are in, what is published. */
struct unwind_tables *track_tables(const struct track *t);
const struct publisher *track_publisher(const struct track *t);
/* The live process with that pid; NULL: unknown. Borrowed until events are drained. */
const struct process *track_process(const struct track *t, uint32_t pid);
/* Calls `fn` for every live process; it must not change them. */
void track_each(const struct track *t, void (*fn)(struct process *p, void *data), void *data);
/* The tenant that the process belongs to (struct proc_context); 0: not known. */
uint64_t track_tenant(const struct track *t, uint32_t pid);
/*
 * A report about a code object of the process was one, or was not. False: almost none is, so its language
 * runtime is not what its file was taken for, and its frames are no longer walked.
 */
bool track_judge_runtime(struct track *t, uint32_t pid, bool good);
/* As publisher_set_thread_slot. */
void track_thread_slot(struct track *t, uint32_t pid, uint32_t generation, int32_t thread_slot);
struct arena *track_arena(const struct track *t);
/* A sample could not be walked past code of the process at this address, which is in no ELF file. */
void track_generated(struct track *t, struct process *p, uint64_t address, enum generated_wish wish);
/*
 * The binary that stands for the generated code of a process, whose memory is going to be looked at; it is
 * made where there is none. 0: there is no such process, its mappings are not known, or no memory.
 */
uint32_t track_generated_binary(struct track *t, uint32_t pid);
/* Whether the process is being read, its mappings or a file of them: samples without these should wait. */
bool track_reading(const struct track *t, const struct process *p);
bool track_code_changes(const struct track *t); /* see generated_code_changes */
/* Changes whenever something was published: stacks that wait should be tried again. */
uint64_t track_epoch(const struct track *t);
/* Samples up to this time have been seen: what ended before it may be forgotten. */
void track_drained(struct track *t, uint64_t time_ns);
/* Drops what has become too old to be needed. Call every 15 s or so. */
void track_sweep(struct track *t, uint64_t now_ns);
void track_stats(const struct track *t, struct track_stats *ret);
/* The sum over all reasons. */
uint64_t track_events_lost(const struct track_stats *s);

#endif
