// SPDX-License-Identifier: Apache-2.0
/*
 * Names of code that processes generate at run time. Runtimes list it for profilers in perf maps (perfmap.h),
 * which are expected at /tmp/perf-<pid>.map inside the process's mount namespace, and in jitdump files
 * (jitdump.h), which the process maps. The cache has one record for each process with samples in such code;
 * jobs on worker threads read what its files have grown by:
 *
 *	if (symbol_jit_note(j, process, time_ns) > 0)	// new record: start a job before the files are gone
 *		…
 *	if (symbol_jit_job_new(&job, j, process, dump_fd, now_ns) == 0 && worker_submit(w, &job->work, …) < 0)
 *		symbol_jit_complete(j, job);		// did not run
 *	…
 *	if ((slot = symbol_jit_slot(j, process)) >= 0 && symbol_jit_find(j, slot, address, &symbol))
 *
 * The records belong to one thread. The files are opened and read by processes without rights (jitopen.h,
 * jitread.h); a job has these do so, and may read, but not change, the previous tables. It never waits for a
 * file system for long. Names are those of the last job: if code was replaced between a sample and that job,
 * the sample gets the name of the new code. Rank 2.
 */
#ifndef PROFLET_SYMBOL_JIT_H
#define PROFLET_SYMBOL_JIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/worker.h"
#include "agent/symbol/jitopen.h"
#include "agent/symbol/jittable.h"

struct process;
struct symbol_jit;
struct symbol_jit_record;

#define SYMBOL_JIT_PROCESSES_MAX 1024u
#define SYMBOL_JIT_IDLE_NS 60000000000ull /* a record unused for this long may be replaced */

struct symbol_jit_stats {
	size_t n_processes, bytes;	    /* records; bytes of their tables */
	uint64_t n_full;		    /* processes for which there was no free record */
	uint64_t n_reads, n_failed;	    /* reads of files; reads that failed */
	uint64_t n_refused[JIT_REFUSALS_N]; /* of these, files that may not be the process's own */
	uint64_t bytes_read;		    /* of files */
	uint64_t n_deferred;  /* reads put off: the process or its workload has used its budget, or waits */
	uint64_t n_rewritten; /* reads that found the file written anew: they wait for longer each time */
	uint64_t n_harmful;   /* reads whose process crashed, took too long or lied; the file is left alone */
	uint64_t n_no_answer; /* reads that a file system did not answer */
	uint64_t n_bad;	      /* malformed entries */
	uint64_t n_cut;	      /* entries discarded, or files not read completely, because of a maximum */
	uint64_t n_evicted;   /* tables freed to stay within the byte budget */
};

struct symbol_jit_job;

/* A function that a process has generated, as its runtime lists it. */
struct symbol_jit_code {
	uint64_t start, end; /* process addresses */
	bool frame_pointer;  /* the frame pointer is that of its frame in all of it */
};

/* The worker job to submit. Its `done` calls symbol_jit_complete. */
struct worker_job *symbol_jit_job_work(struct symbol_jit_job *job);

/* Uses /proc of this mount namespace. 0, -ENOMEM, -errno. */
int symbol_jit_new(struct symbol_jit **ret, size_t max_bytes);
/* Jobs that have not begun do nothing from now on, others end soon. */
void symbol_jit_stop(struct symbol_jit *j);
/* All jobs must have been completed: free the worker pool first. NULL is fine. */
void symbol_jit_free(struct symbol_jit *j);
/*
 * To be called for each sample with a frame outside of files. 1: a new record was made, and the root
 * directory and user of the process were read from /proc; 0: the process has a record; -ENOSPC (counted),
 * -ENOMEM, or the error of reading /proc, for instance because the process has ended.
 */
int symbol_jit_note(struct symbol_jit *j, struct process *p, uint64_t now_ns);
/* True when the process has a record and no job is running for it. */
bool symbol_jit_idle(const struct symbol_jit *j, const struct process *p);
/* When the last job of the process was made, CLOCK_MONOTONIC; 0: none yet, or there is no record. */
uint64_t symbol_jit_read_ns(const struct symbol_jit *j, const struct process *p);
/*
 * Makes a job that reads the new part of the process's files. dump_fd (borrowed) is its jitdump file, or -1.
 * 0; -ENOENT: the process has no record; -EBUSY: a job is running; -EAGAIN: it or its workload has used its
 * budget (jitbudget.h), or must wait; -ENOMEM.
 */
int symbol_jit_job_new(struct symbol_jit_job **ret, struct symbol_jit *j, const struct process *p,
		       int dump_fd, uint64_t now_ns);
/* Stores the results of a job and frees it. */
void symbol_jit_complete(struct symbol_jit *j, struct symbol_jit_job *job);
/*
 * The number of the process's record, below SYMBOL_JIT_PROCESSES_MAX; valid until the next note or sweep.
 * -ENOENT: the process has no record of its present program.
 */
int symbol_jit_slot(const struct symbol_jit *j, const struct process *p);
/* The process of a record that exists. Borrowed. */
const struct process *symbol_jit_process(const struct symbol_jit *j, unsigned slot);
/* True when the address has a name; *ret is borrowed until the next complete, note or sweep. */
bool symbol_jit_find(const struct symbol_jit *j, unsigned slot, uint64_t address, struct jit_symbol *ret);
/* Frees the records of processes that have ended and were not noted since before_ns. */
void symbol_jit_sweep(struct symbol_jit *j, uint64_t before_ns);
void symbol_jit_get_stats(const struct symbol_jit *j, struct symbol_jit_stats *ret);

#endif
