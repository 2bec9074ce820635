// SPDX-License-Identifier: Apache-2.0
/*
 * Processes → tables: keeps the process table true to the host (side-band, /proc) and published to the BPF
 * program. Owns process table, binaries, arena, publisher and thread names. Main loop only. Rank 3.
 */
#ifndef PROFLET_TRACK_H
#define PROFLET_TRACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/binary/registry.h"
#include "agent/probe/sideband.h"
#include "agent/proc/sampled_task.h"
#include "agent/proc/table.h"
#include "agent/sample/decode.h"
#include "agent/track/select.h"
#include "agent/track/track_ask.h"
#include "agent/unwind/arena.h"
#include "agent/unwind/publish.h"
#include "agent/unwind/tables.h"
#include "cgroup/meta.h"

struct loop;
struct probe;
struct track;
struct worker;

struct track_options {
	struct loop *loop;
	struct probe *probe;
	struct sideband *sideband;
	struct worker *worker;
	struct worker *opener; /* for what may not come back: agent/track/track_ask.h */
	size_t table_bytes;    /* budget of the arena */
	size_t max_processes;
	uint32_t max_files;
	const char *cgroup_base; /* of our cgroup namespace, cgroup/namespace.h; NULL: the host's */
	bool debug_files; /* look for separate debug files of binaries that do not describe all of their text
			   */
	/* Called whenever it was read whose a process is. NULL: nobody wants to know. */
	void (*workload)(const struct cgroup_meta *m, void *data);
	void *workload_data;
	/* Whether a process is to be sampled. NULL: every one. Asked at scan and at exec; a fork is as its
	 * parent. */
	enum select_answer (*select)(const struct process *p, void *data);
	void *select_data;
};

struct track_stats {
	struct arena_stats arena;
	struct binary_stats binaries;
	struct unwind_tables_stats tables;
	struct publish_stats publish;
	struct cgroup_meta_stats workloads;
	uint64_t processes, processes_full;		 /* known now; refused at the maximum */
	uint64_t threads, threads_full;			 /* names held now; refused at the maximum */
	uint64_t events, events_lost[SIDEBAND_LOSSES_N]; /* side-band */
	uint64_t opened, open_failed, open_gone; /* binaries; open_gone: process or mapping went before */
	uint64_t open_known, open_other; /* gone, but known by build id or inode; found through an ancestor */
	uint64_t open_stuck;		 /* given up: their file systems do not answer */
	struct ask_stats ask;
	uint64_t execs, forks, exits;
	uint64_t rescans; /* of /proc, because events were lost */
	uint64_t rereads; /* of a process's mappings, where events do not tell of them */
	uint64_t remapped,
		remaps_full; /* processes with copies of code found; not looked at for want of room */
};

/* Everything in `options` is borrowed and outlives the track. 0 or -errno. */
int track_new(struct track **ret, const struct track_options *options);
void track_free(struct track *t);
/* Reads every process of /proc; call after the side-band is open. 0 or -errno. */
int track_scan(struct track *t);
/* Takes what the side-band has, and publishes what changed; false: nothing did. Call before the samples are
 * drained. */
bool track_drain(struct track *t);
/* Events may have been missed, on a CPU that has come online: /proc is read again at the next drain. */
void track_events_missed(struct track *t);
/* Gives up what workers and file systems do not bring in time. Call every 100 ms or so. */
void track_check(struct track *t);
/* After worker_collect: publishes new tables, hands out more work. */
void track_progress(struct track *t);
/* Blocks until all known files have a table or the time is over. For recordings, before sampling starts. */
void track_settle(struct track *t, uint64_t timeout_ns);
/*
 * The process that had this pid then; read from /proc now if it was not known, named "[exited]" if it is gone
 * without a trace. NULL at the maximum of processes. Borrowed.
 */
struct process *track_process(struct track *t, uint32_t pid, uint64_t time_ns);
/*
 * Finds the process that a sample is of, by pid and time, and how it was called then. Every event up to the
 * sample's time must have been drained. False at the maximum of processes.
 */
bool track_attribute(struct track *t, const struct sample_view *v, struct sampled_task *ret);
/*
 * Asks again for every process whether it is to be sampled, by the control group that it is in now: call
 * where that may have changed. Those that are not are left out by the BPF program from then on.
 */
void track_reselect(struct track *t);
/* Tables, with the binaries that they are of, and the memory that they are in. Borrowed. */
struct unwind_tables *track_tables(const struct track *t);
const struct publisher *track_publisher(const struct track *t);
struct arena *track_arena(const struct track *t);
/* Changes whenever something was published: what could not be finished may be now. */
uint64_t track_epoch(const struct track *t);
/* Samples up to this time have been drained: what ended before it may be forgotten. */
void track_drained(struct track *t, uint64_t time_ns);
/* Forgets binaries that nothing maps and no sample used for a while; fn gets each index. Call now and then.
 */
void track_sweep(struct track *t, uint64_t now_ns, void (*fn)(uint32_t index, void *data), void *data);
void track_stats(const struct track *t, struct track_stats *ret);
/* For all reasons together. */
uint64_t track_events_lost(const struct track_stats *s);

#endif
