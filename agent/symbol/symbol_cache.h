// SPDX-License-Identifier: Apache-2.0
/*
 * Looks up function names by file and ELF address. The cache holds ranges of functions for each file. A
 * lookup never blocks: an address that is not cached is collected, a job resolves the collected addresses of
 * a file on a worker thread, and the results are merged into the cache on the main thread:
 *
 *	if (!symbol_cache_find(c, file, va, &name))
 *		symbol_cache_want(c, file, va);
 *	…
 *	while (symbol_cache_next_wanted(c, &file)) {
 *		if (symbol_job_new(&job, c, file, &files) < 0)
 *			break;
 *		if (worker_submit(w, &job->work, WORKER_LOW) < 0) {
 *			symbol_cache_complete(c, job); // did not run: its addresses are collected again
 *			break;
 *		}
 *	}
 *
 * The cache belongs to one thread. A running job shares no data with it. Rank 2; reads files through elf/.
 */
#ifndef PROFLET_SYMBOL_CACHE_H
#define PROFLET_SYMBOL_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/worker.h"

struct elf_version;
struct symbol_cache;
struct symbol_batch;

/* Borrowed from the cache until its next change: complete, give_up and forget change it, want does not. */
struct symbol_name {
	const char *function;	 /* demangled; NULL: the address is known to have no name */
	const char *system_name; /* linkage name if it differs from `function`, else NULL */
	const struct frame_line
		*lines; /* inlined calls, innermost first, then the function itself; or NULL */
	size_t n_lines;
	bool unnamed;	     /* a function without a symbol begins at `start` */
	uint64_t start, end; /* ELF virtual addresses that have this name */
};

struct symbol_cache_stats {
	size_t n_files, n_ranges, n_wanted;
	size_t n_in_jobs;      /* addresses in running jobs */
	size_t bytes;	       /* of the ranges and their names */
	uint64_t n_evicted;    /* ranges freed to stay within the byte budget */
	uint64_t n_dropped;    /* addresses not collected because of a maximum or a lack of memory */
	uint64_t n_unreadable; /* addresses without a name because their file could not be read */
	uint64_t n_changed;    /* of these, because it has got other content */
	uint64_t n_lines_left; /* addresses whose debug information was not read because time ran out */
	uint64_t n_stale;      /* jobs whose file was forgotten before they finished */
};

#define SYMBOL_FILES_MAX 65536u
#define SYMBOL_WANTED_PER_FILE 4096u
#define SYMBOL_WANTED_MAX (256u << 10) /* addresses collected over all files */
#define SYMBOL_JOBS_OF_A_TENANT 8u     /* at a time */

/* 0 or -ENOMEM. Beyond `max_bytes`, ranges that were not looked up recently are freed. */
int symbol_cache_new(struct symbol_cache **ret, size_t max_bytes);
/* All jobs must have been completed: free the worker pool first. NULL is fine. */
void symbol_cache_free(struct symbol_cache *c);
/* Registers the function that tells whose file it is (agent/proc/tenant.h). Else all are tenant 0's. */
void symbol_cache_on_tenant(struct symbol_cache *c, uint64_t (*tenant)(uint32_t file_id, void *data),
			    void *data);
/* Registers the function that holds tenants back (agent/proc/fair_queue.h). `data` is borrowed. */
void symbol_cache_on_held(struct symbol_cache *c,
			  uint64_t (*held_until_ns)(uint64_t tenant, const void *data), const void *data);
/* True when the address is in the cache. Otherwise *ret is not written. */
bool symbol_cache_find(struct symbol_cache *c, uint32_t file_id, uint64_t va, struct symbol_name *ret);
/* Collects an address for the next job of its file. 0, -ENOSPC or -ENOMEM (both are counted). */
int symbol_cache_want(struct symbol_cache *c, uint32_t file_id, uint64_t va);
/*
 * The file to make a job of next: it has collected addresses and no running job. Tenants take turns as in
 * agent/proc/fair_queue.h, with SYMBOL_JOBS_OF_A_TENANT at a time. False: none now.
 */
bool symbol_cache_next_wanted(struct symbol_cache *c, uint32_t *ret_file_id);
/*
 * Files whose last job ran out of memory, or got no process, may have another one if enough time has passed,
 * which doubles with each failure. Call it once a window.
 */
void symbol_cache_retry(struct symbol_cache *c);
/* The file cannot be opened: marks its collected addresses as having no name, and counts them. */
void symbol_cache_give_up(struct symbol_cache *c, uint32_t file_id);
/* Removes the file, whose index is about to be used for another one. */
void symbol_cache_forget(struct symbol_cache *c, uint32_t file_id);
void symbol_cache_get_stats(const struct symbol_cache *c, struct symbol_cache_stats *ret);

/*
 * A job that resolves the collected addresses of one file. `work.done` is initialised to a function that
 * calls symbol_cache_complete; a caller that wants to be notified may replace it by its own function, which
 * must call symbol_cache_complete.
 */
struct symbol_job {
	struct worker_job work;
	struct symbol_cache *cache;
	struct symbol_batch *batch; /* owned */
};

/* The files that contain the names. Descriptors may have O_PATH. */
struct symbol_files {
	int fd;
	int debug_fd;	      /* its separate debug file; -1: none */
	uint64_t debug_delta; /* to be added to the addresses of the debug file */
	const struct elf_version *version, *debug_version; /* of their contents; borrowed; NULL: any */
	bool of_system;					   /* both are files of the system's own */
	bool source_lines; /* only addresses with source lines, from debug information, too; needs
				 symbol_dwarf_load (dwarf.h) */
};

/*
 * Makes a job of the file's collected addresses and duplicates the descriptors. 0; -ENOENT when no address is
 * collected; -EBUSY while a job of the file is running; -errno of dup; -ENOMEM. On error the addresses stay
 * collected.
 */
int symbol_job_new(struct symbol_job **ret, struct symbol_cache *c, uint32_t file_id,
		   const struct symbol_files *files);
/*
 * Moves the results into the cache and frees the job. If the file could not be read, its addresses are marked
 * as having no name. If the job did not run, its addresses are collected again; if it ran out of memory, or
 * got no process, they wait for symbol_cache_retry. A file that made its process crash, or take too much CPU
 * time, is not read again until it is forgotten: no address of it has a name that is not in the cache.
 */
void symbol_cache_complete(struct symbol_cache *c, struct symbol_job *job);
/* Whether the job's file is known still by the number that it had when the job was made. */
bool symbol_cache_expects(const struct symbol_cache *c, const struct symbol_job *job);
/* The job is stuck, and no longer counts as one of its tenant's. It may be completed later. */
void symbol_cache_overdue(struct symbol_cache *c, const struct symbol_job *job);

#endif
