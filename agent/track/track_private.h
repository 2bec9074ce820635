// SPDX-License-Identifier: Apache-2.0
/* What track.c and its parts share: track_files.c, track_threads.c, track_publish.c. Rank 3. */
#ifndef PROFLET_TRACK_PRIVATE_H
#define PROFLET_TRACK_PRIVATE_H

#include "agent/base/clock.h"
#include "agent/base/map.h"
#include "agent/base/worker.h"
#include "agent/proc/text.h"
#include "agent/proc/threads.h"
#include "agent/track/track.h"
#include "agent/track/track_ask.h"

struct proc_maps_line;
struct proc_open_request;
struct sideband_event;

/* Waits, on a worker, until every BPF program that runs now has ended. */
struct grace_job {
	struct worker_job job;
	struct track *track;
	bool begun, running; /* blocks wait for it; it is with the workers */
};

#define TRACK_REMAPS_MAX 64

/* A process that has mapped something over code of a file: is it a copy of that code? */
struct track_remap {
	uint32_t pid; /* 0: the slot is free */
	unsigned n_tried;
	uint64_t due_ns;
};

struct track {
	struct track_options options;
	int proc_fd;
	struct proc_table *table;
	struct arena *arena;
	struct binary_registry *binaries;
	struct unwind_tables *tables;
	struct publisher *publisher;
	uint64_t epoch;	     /* of what is published */
	uint64_t drained_ns; /* no sample of before comes any more */
	bool news;	     /* this drain's events have told of something */
	struct cgroup_meta_cache *workloads;
	uint32_t vdso;	  /* file index */
	uint32_t ticket;  /* given last, see PROC_FILE_OPENING */
	struct ask *late; /* questions that nobody waits for any more */
	uint64_t patience_ns, patience_at_ns;
	struct ask_stats ask;
	uint64_t overdue_told; /* tables given up, of which the log knows */
	uint32_t *dirty;       /* pids to publish */
	size_t n_dirty, cap_dirty;
	bool all_dirty;	   /* tables came: look at every process */
	struct map delays; /* processes whose lists wait, track_publish.c */
	struct grace_job grace;
	uint64_t graces;		       /* that have ended */
	struct proc_threads *threads;	       /* their names */
	bool rescan_wanted;		       /* events were lost */
	uint64_t rescanned_ns, rescan_wait_ns; /* the last; none sooner after it */
	uint64_t rescan_cost_ns;	       /* of the last: time that it took, and that of late answers */
	bool rescanning;
	uint32_t scan_serial;
	struct track_seen *seen; /* while /proc is scanned */
	struct track_remap remaps[TRACK_REMAPS_MAX];
	struct track_stats stats;
};

/* track.c, for its parts */
void track_mark_dirty(struct track *t, uint32_t pid); /* publish it at the end of this drain */
/* Sets whether the process is sampled; its list carries the flag. `inherited`: what its parent is, or it was.
 */
void track_select(struct track *t, struct process *p, bool inherited);
/* It ended then. Takes it from the BPF program. */
void track_process_over(struct track *t, struct process *p, uint64_t time_ns);

/* track_history.c */
#define HISTORY_KEEP_NS (12 * NS_PER_SEC) /* longer than a sample waits */
#define KEEP_STACK_NS (10 * NS_PER_SEC)
#define FORK_STACK_NS (1 * NS_PER_SEC) /* most that call execve do so at once */
/* p->maps are about to change, or were replaced, at that time. */
void track_remember(struct track *t, struct process *p, uint64_t until_ns);
/* Now and then: forgets what is old. */
void track_history_tend(struct track *t, struct process *p, uint64_t now_ns);

/* track_scan.c */
void track_read_process(struct track *t,
			struct process *p); /* everything; p->scanned stays false when it is gone */
/* Executable and mappings of what execve has begun, where events do not tell. */
void track_read_image(struct track *t, struct process *p);
/* A sample of the process came: where events do not tell of mappings, it may be one of a new mapping. */
void track_miss(struct track *t, struct process *p, const struct sample_view *v);
void track_rescan(struct track *t); /* when events were lost, at most every few seconds */

/*
 * track_lines.c: the mappings of a process, and its memory, by /proc. `then` is called with the lines of
 * maps, all or the executable ones: now, and its result returned; or later, unless the process has ended or
 * was replaced by then: -EAGAIN. -ETIMEDOUT, -ENOMEM: not at all.
 */
#define TRACK_LINES_CHUNK 512u /* one array that grows with them would be moved, page by page */
struct track_lines {
	size_t n;
	struct proc_maps_line *const *chunks; /* with decoded paths; borrowed */
	bool beside_file;		      /* some code without a file stands beside one */
};
const struct proc_maps_line *track_line(const struct track_lines *l, size_t i);
typedef int (*track_lines_fn)(struct track *t, struct process *p, const struct track_lines *l);
int track_lines_read(struct track *t, struct process *p, bool all, track_lines_fn then);
/* The executable ones, in two halves (track_ask_ahead). NULL: not at all. */
struct lines_ask *track_lines_ahead(struct track *t, struct process *p, track_lines_fn then);
int track_lines_take(struct track *t, struct lines_ask *l);
/* As proc_text_compare, of the part of a file that should be at `start`. */
enum proc_text track_text_compare(struct track *t, uint32_t pid, uint64_t start, uint64_t len, int fd,
				  uint64_t offset);

/* track_seen.c: during a scan, the files that it has come by, of lines that name a file and an inode. */
void track_seen_begin(struct track *t);
void track_seen_end(struct track *t);
bool track_seen_find(struct track *t, uint32_t pid, const struct proc_maps_line *line, uint32_t *ret_file);
void track_seen_add(struct track *t, uint32_t pid, const struct proc_maps_line *line, uint32_t file);

/* track_files.c: which file is mapped there; PROC_FILE_NONE for memory without one, or that cannot be opened;
 * a ticket (PROC_FILE_OPENING) where it comes later.
 */
int track_vdso_add(struct track *t);
bool track_file_named(const char *name);
void track_request_of_line(struct proc_open_request *ret, uint32_t pid, const struct proc_maps_line *line,
			   const char *path);
uint32_t track_file_of_line(struct track *t, uint32_t pid, const struct proc_maps_line *line,
			    const char *path);
uint32_t track_file_of_event(struct track *t, const struct sideband_event *e);

/* track_remap.c: copies of code in memory without a file, see there. */
/* Executable memory of that file, or of none, with that name in maps (NULL: none) may be one. */
bool track_remap_possible(const struct track *t, uint32_t file, const char *path);
/* Finds those of a process, by /proc, and gives them their file; true when there was one. */
bool track_remap_read(struct track *t, struct process *p);
/* Memory without a file, of a process that is looked at again: from now on it may hold the code of a file. */
bool track_remap_pending(struct track *t, const struct process *p, const struct proc_mapping *m);
/* A mapping that is about to be put in; when it replaces code, or may have done so, track_remap_retry looks
 * at it. */
void track_remap_note(struct track *t, const struct process *p, const struct proc_mapping *m);
void track_remap_retry(struct track *t);

/* track_threads.c: threads other than the main one, and what they leave behind. */
/* What the thread was called then. */
void track_thread_name(struct track *t, struct process *p, uint32_t tid, uint64_t time_ns,
		       char ret[PROC_TASK_COMM_LEN]);
void track_thread_begin(struct track *t, struct process *p, const struct sideband_event *fork);
void track_thread_end(struct track *t, uint32_t tid, uint64_t time_ns);
/* Whether nothing is left of the process after this exit of one of its threads. */
bool track_last_thread(struct process *p, const struct sideband_event *exit);
/* Now and then: ends a process whose last thread's exit was not seen as that. */
void track_main_over_check(struct track *t, struct process *p, uint64_t now_ns);
/* execve has ended all threads but the one that called it, which is the main one now. */
void track_threads_over(struct track *t, struct process *p, uint64_t time_ns);

/* track_names.c: what processes are called, see agent/proc/image.h. */
void track_comm_set(struct proc_image *i, const char *comm);
void track_renamed(struct track *t, struct process *p, const struct sideband_event *comm);
/* Reads the cgroup for the image that holds now; keeps what was known when the process is gone. */
void track_read_workload(struct track *t, struct process *p);

/* track_environ.c: asks for the OTEL_SERVICE_NAME of the program that the image runs. */
void track_read_environ(struct track *t, struct process *p, struct proc_image *i);

/* track_publish.c: mapping lists and grace periods. */
void track_publish(struct track *t);
void track_grace_init(struct track *t);
void track_delays_fini(struct track *t);
void track_delays_tend(struct track *t, uint64_t now_ns); /* now and then: forgets what has passed */
void track_grace(struct track *t);

#endif
