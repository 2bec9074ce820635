// SPDX-License-Identifier: Apache-2.0
/*
 * A machine for agent/track that does what a test says: processes in a /proc of its own, the events that they
 * cause, a clock that stands still, worker threads that answer at once, late, or never. No thread reads
 * anything: jobs run when the main loop waits for them, or when the test calls fake_pool_work.
 */
#ifndef TESTS_UNIT_AGENT_TRACK_FAKE_HOST_H
#define TESTS_UNIT_AGENT_TRACK_FAKE_HOST_H

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/track/track.h"
#include "agent/track/track_host.h"
#include "bpf/abi.h"

#define FAKE_START_NS (1000 * NS_PER_SEC) /* what the clock says at first */
#define FAKE_PROCESSES_MAX 256
#define FAKE_LINES_MAX 256
#define FAKE_FILES_MAX 32
#define FAKE_EVENTS_MAX 4096
#define FAKE_SEGMENTS_MAX 8
#define FAKE_PAGE 4096ull

extern uint64_t fake_now_ns, fake_cpu_ns; /* what the clocks say */
extern uint64_t fake_cpu_step_ns;	  /* CPU time that passes whenever it is read */
extern uint64_t fake_now_step_ns;	  /* time that passes whenever it is read */
extern int64_t fake_real_offset_ns;	  /* wall clock minus fake_now_ns: today, after the files were made */

enum fake_answer {
	FAKE_NOW,   /* a wait ends with the answer */
	FAKE_LATE,  /* a wait ends without the answer, which comes when the pool is drained */
	FAKE_NEVER, /* not even then */
};

struct fake_pool {
	enum fake_answer answer;
	const char *late_kind; /* FAKE_LATE is for requests of that kind (request_kind.what); NULL: for all */
	bool full;	       /* refuses jobs */
	uint64_t stuck_since_ns; /* threads that have begun have slept since then; 0: they run */
	bool all_stuck;		 /* no thread is left for the jobs that wait */
	uint64_t answer_ns;	 /* that the clock advances while a job is waited for */
	struct worker_job *first, **tail;
	struct worker *others; /* real ones, drained with it; NULL */
	unsigned n_submitted, n_waits, n_checks;
};

struct fake_file {
	char path[64];
	int fd;			    /* -1: it cannot be opened */
	uint64_t inode, generation; /* generation 0: its file system has none */
	uint32_t dev_major, dev_minor;
};

struct fake_process {
	uint32_t pid, ppid; /* pid 0: the slot is free */
	uint64_t start_ns;
	uint32_t n_threads;
	bool kernel_thread, hidden;		  /* hidden: not in the list of processes, but there */
	char comm[16], thread_comm[16];		  /* the latter: of every other thread */
	char exe[64], container[65], service[32]; /* "": none */
	uint64_t mount_namespace;
	size_t n_lines;
	struct fake_line {
		struct proc_maps_line line;
		char path[64];
	} lines[FAKE_LINES_MAX];
	enum proc_text text; /* of its memory, compared with any file */
};

struct fake_host {
	struct track_host host;
	struct fake_pool readers, workers;
	struct fake_process processes[FAKE_PROCESSES_MAX];
	struct fake_file files[FAKE_FILES_MAX];
	size_t n_files;
	/* events that wait */
	size_t n_events;
	struct fake_event {
		struct sideband_event event;
		char name[64];
	} events[FAKE_EVENTS_MAX];
	bool mappings; /* events report them */
	int drain_error, scan_error, open_error;
	uint64_t lost[SIDEBAND_LOSSES_N];
	struct {
		uint32_t pid;
		uint64_t start, end;
		unsigned n;
	} ignored;
	/* calls */
	unsigned n_scans, n_stats, n_maps, n_opens, n_opens_other, n_environs, n_cgroups, n_compares, n_roots;
	unsigned n_graces;
	void *segments[FAKE_SEGMENTS_MAX];
	unsigned n_segments_max; /* no more than these can be made */
};

void fake_host_init(struct fake_host *h);
void fake_host_fini(struct fake_host *h);

/* --- /proc */

struct fake_process *fake_process_add(struct fake_host *h, uint32_t pid, uint32_t ppid, const char *comm);
/* Takes it out of /proc. */
void fake_process_remove(struct fake_host *h, uint32_t pid);
/* An executable mapping of a file (NULL: none) in maps. */
void fake_process_map(struct fake_host *h, uint32_t pid, uint64_t start, uint64_t pages, uint64_t offset,
		      const char *path);
/* Any other; `kind` as in maps: "r--p". */
void fake_process_map_kind(struct fake_host *h, uint32_t pid, uint64_t start, uint64_t pages, uint64_t offset,
			   const char *path, const char *kind);
/* A file that can be opened: an ELF file with a build id of its own, or a few bytes. */
struct fake_file *fake_file_add(struct fake_host *h, const char *path, bool elf);

/* --- events, each a microsecond after the one before */

void fake_fork(struct fake_host *h, uint32_t parent, uint32_t child);
void fake_thread(struct fake_host *h, uint32_t pid, uint32_t tid);
void fake_exec(struct fake_host *h, uint32_t pid, uint32_t tid, const char *comm);
void fake_comm(struct fake_host *h, uint32_t pid, uint32_t tid, const char *comm);
void fake_mmap(struct fake_host *h, uint32_t pid, uint64_t start, uint64_t pages, uint64_t offset,
	       const char *path);
void fake_exit(struct fake_host *h, uint32_t pid, uint32_t tid);
void fake_lost(struct fake_host *h, enum sideband_loss reason, uint64_t n);

/* --- workers */

/* Runs all jobs, and hands them back, whatever `answer` says. Returns how many. */
unsigned fake_pool_work(struct fake_pool *p);
/* A thread has begun with every job that waits, and sleeps from now on. */
void fake_pool_stick(struct fake_pool *p);
/* What worker_free does to the jobs that wait. */
void fake_pool_cancel(struct fake_pool *p);

/* --- the process flow on such a machine */

struct flow {
	struct fake_host host;
	struct track *track;
	struct track_options options;
	unsigned n_workloads;
};

struct flow *flow_new(void);
/* With other options than the usual ones, which are in *options of a flow_prepare. */
struct flow *flow_prepare(void);
void flow_start(struct flow *f);
void flow_free(struct flow *f);
DEFINE_CLEANUP(struct flow *, flow_free)
#define _cleanup_flow_ _cleanup_(flow_free_p)

#define FLOW_SHELL 100u		    /* pid of flow_add_shell */
#define FLOW_SHELL_CODE 0x400000ull /* where it has mapped its code */
/* Before flow_start: a shell with one mapping, there for a second; the files /bin/sh and /bin/tool. */
void flow_add_shell(struct flow *f);
/* Advances the clock. */
void flow_wait(struct flow *f, uint64_t ns);
/* A sample of the thread, now or at a time. */
struct sampled_task flow_sample(struct flow *f, uint32_t pid, uint32_t tid);
struct sampled_task flow_sample_at(struct flow *f, uint32_t pid, uint32_t tid, uint64_t time_ns);
/* As now, of a walk that ended so. */
struct sampled_task flow_sample_ending(struct flow *f, uint32_t pid, enum unwind_ending ending);
struct process *flow_process(struct flow *f, uint32_t pid);
struct track_stats flow_stats(const struct flow *f);
/*
 * The path of the binary that the process has mapped there; "-" for memory without one, "?" while it is being
 * opened, "" where nothing is mapped.
 */
const char *flow_path_at(struct flow *f, const struct proc_maps *maps, uint64_t address);
const char *flow_path(struct flow *f, uint32_t pid, uint64_t address);
/* What the BPF program finds of the process. */
enum flow_slot {
	SLOT_ABSENT,
	SLOT_EMPTY, /* it has no mappings */
	SLOT_SKIP,  /* it is not to be sampled */
	SLOT_LIST,
};
enum flow_slot flow_slot(struct flow *f, uint32_t pid);
/* The process's list, in the arena; NULL where its slot names none. */
const struct mapping_list *flow_list(struct flow *f, uint32_t pid);
/* Whether the BPF program sends the stack with the process's samples. */
bool flow_sends_stack(struct flow *f, uint32_t pid);
/* Builds tables until none waits, and ends grace periods. */
void flow_settle(struct flow *f);

#endif
