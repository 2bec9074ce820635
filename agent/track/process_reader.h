// SPDX-License-Identifier: Apache-2.0
/*
 * One process as /proc shows it: its attributes, mappings and names go into the process table. Used for
 * processes that events do not tell enough about: those that are older than the agent, those of which events
 * were lost, and all of them where there are no events about mappings. Main loop only.
 */
#ifndef PROFLET_TRACK_PROCESS_READER_H
#define PROFLET_TRACK_PROCESS_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/sample/decode.h"
#include "agent/track/gaps.h"
#include "agent/track/requests.h"

struct map_lines_request;
struct openings;
struct proc_table;
struct process;
struct process_names;
struct process_reader;
struct publication;
struct remaps;

struct process_reader_options {
	const struct track_host *host;
	struct requests *requests;
	struct proc_table *processes;
	struct openings *openings;
	struct remaps *remaps;
	struct process_names *names;
	struct publication *publication;
	struct gaps *gaps;
};

struct process_reader_stats {
	uint64_t rereads; /* of mappings, where events do not report them, or too many do */
	uint64_t cut;	  /* lists with more mappings than PROC_MAPS_MAX: the others are left out */
};

/* Everything in `options` is borrowed. 0 or -ENOMEM. */
int process_reader_new(struct process_reader **ret, const struct process_reader_options *options);
void process_reader_free(struct process_reader *r); /* NULL is fine */

/* Reads everything; p->scanned stays false when the process is gone. */
void process_reader_read(struct process_reader *r, struct process *p);
/*
 * The same in two steps, between which a worker thread reads the mappings. The first returns what the second
 * needs; NULL: no mappings will come.
 */
struct map_lines_request *process_reader_begin(struct process_reader *r, struct process *p);
void process_reader_end(struct process_reader *r, struct process *p, struct map_lines_request *lines);
/*
 * Reads its mappings again; until the answer comes, it has those that are known. *cost_ns is charged when the
 * answer is late (requests_charge).
 */
void process_reader_reread(struct process_reader *r, struct process *p, uint64_t *cost_ns);
/* Between these two, equal files of different processes are opened once: for a scan of all processes. */
void process_reader_scan_begin(struct process_reader *r);
void process_reader_scan_end(struct process_reader *r);

/*
 * The process that had this pid at that time. One that is not known is read from /proc; one that is gone
 * without a trace is called "[exited]". NULL at the maximum of processes. Borrowed until the next event.
 */
struct process *process_reader_find(struct process_reader *r, uint32_t pid, uint64_t time_ns);
/* When a process began, by /proc: at most this much before its true start. */
#define PROC_START_TICK_NS 10000000ull
uint64_t process_reader_start_ns(const struct process_reader *r, const struct proc_stat *stat);

/* --- where no events report mappings */

/* The process has PROC_MAPS_MAX mappings, and more are left out: the log says so, once. */
void process_reader_full(struct process *p);
/* The executable and the mappings after an execve. */
void process_reader_read_image(struct process_reader *r, struct process *p);
/*
 * A sample of the process came. Reads the mappings again if the sample may lie in a new one, and now and then
 * in any case; less often if that finds nothing new. Returns true if they have changed and are to be
 * published.
 */
bool process_reader_sampled(struct process_reader *r, struct process *p, const struct sample_view *v);
void process_reader_stats(const struct process_reader *r, struct process_reader_stats *ret);

#endif
