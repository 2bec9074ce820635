// SPDX-License-Identifier: Apache-2.0
/*
 * Names of code that processes make at run time, from what their runtimes write for profilers: perf maps
 * (perfmap.h), which are looked for at /tmp/perf-<pid>.map as the process sees it, and jitdump files
 * (jitdump.h), which are mapped. One record a process that had samples in such code; its files are read on by
 * jobs on worker threads:
 *
 *	if (symbol_jit_note(j, process, time_ns) > 0)	// new: its files may be gone soon
 *		…
 *	if (symbol_jit_job_new(&job, j, process, dump_fd) == 0 && worker_submit(w, &job->work, …) < 0)
 *		symbol_jit_complete(j, job);		// not run
 *	…
 *	if ((slot = symbol_jit_slot(j, process)) >= 0 && symbol_jit_find(j, slot, address, &symbol))
 *
 * The records belong to one thread; a job has the process's files while it is under way, and the table before
 * it to read only. Names are those of the last look: code that replaced other code between a sample and that
 * look gives its name. Rank 2.
 */
#ifndef PROFLET_SYMBOL_JIT_H
#define PROFLET_SYMBOL_JIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/worker.h"
#include "agent/symbol/jittable.h"

struct process;
struct symbol_jit;
struct symbol_jit_record;

#define SYMBOL_JIT_PROCESSES_MAX 1024u
#define SYMBOL_JIT_IDLE_NS 60000000000ull /* a record unused for so long makes room for another */

struct symbol_jit_stats {
	size_t n_processes, bytes;  /* records; their tables */
	uint64_t n_full;	    /* processes that there was no record for */
	uint64_t n_looks, n_failed; /* files looked at; that could not be read */
	uint64_t n_refused;	    /* of these: belong to others, or are older than the process */
	uint64_t n_bad;		    /* entries that make no sense */
	uint64_t n_cut;		    /* entries given up, or files not read to their end, at a maximum */
	uint64_t n_evicted;	    /* tables given up for the byte budget */
};

struct symbol_jit_job;

/* The job's part for the worker; its `done` calls symbol_jit_complete. */
struct worker_job *symbol_jit_job_work(struct symbol_jit_job *job);

/* /proc is that of this mount namespace. 0, -ENOMEM, -errno. */
int symbol_jit_new(struct symbol_jit **ret, size_t max_bytes);
/* All jobs must have been completed: free the worker pool first. NULL is fine. */
void symbol_jit_free(struct symbol_jit *j);
/*
 * A sample of the process, which lives, or did when it was taken, has a frame outside of files. 1: there is a
 * new record, the process's root and identity were read from /proc; 0: known; -ENOSPC (counted), -ENOMEM, or
 * why /proc could not be read.
 */
int symbol_jit_note(struct symbol_jit *j, struct process *p, uint64_t now_ns);
/* There is a record, and no job under way: one can be made. */
bool symbol_jit_idle(const struct symbol_jit *j, const struct process *p);
/*
 * A job that reads what is new in the process's files. dump_fd (borrowed): its jitdump file, -1: it has none.
 * 0; -ENOENT: there is no record; -EBUSY: one is under way; -ENOMEM.
 */
int symbol_jit_job_new(struct symbol_jit_job **ret, struct symbol_jit *j, const struct process *p,
		       int dump_fd);
/* Takes what a job has found, and frees it. */
void symbol_jit_complete(struct symbol_jit *j, struct symbol_jit_job *job);
/* The number of the process's record, below SYMBOL_JIT_PROCESSES_MAX, until the next note or sweep. -ENOENT:
 * it has none of its present image. */
int symbol_jit_slot(const struct symbol_jit *j, const struct process *p);
/* Whose record it is; there is one. Borrowed. */
const struct process *symbol_jit_process(const struct symbol_jit *j, unsigned slot);
/* True when the address has a name; *ret is borrowed until the next complete, note or sweep. */
bool symbol_jit_find(const struct symbol_jit *j, unsigned slot, uint64_t address, struct jit_symbol *ret);
/* Forgets processes that have ended and were not noted since before_ns. */
void symbol_jit_sweep(struct symbol_jit *j, uint64_t before_ns);
void symbol_jit_get_stats(const struct symbol_jit *j, struct symbol_jit_stats *ret);

#endif
