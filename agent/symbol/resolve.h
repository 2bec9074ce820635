// SPDX-License-Identifier: Apache-2.0
/*
 * Function names for (file, ELF address). A cache of function ranges for each file answers at once or not
 * at all; what it could not answer is collected per file, taken into a job, resolved on a worker thread,
 * and merged on return:
 *
 *	if (!symbol_cache_find(c, file, va, &name))
 *		symbol_cache_want(c, file, va);
 *	…
 *	while (symbol_cache_next_wanted(c, &file)) {
 *		if (symbol_job_new(&job, c, file, &files) < 0)
 *			break;
 *		if (worker_submit(w, &job->work, WORKER_LOW) < 0) {
 *			symbol_cache_complete(c, job); // not run: its addresses are collected again
 *			break;
 *		}
 *	}
 *
 * The cache belongs to one thread; a job shares nothing with it while it runs. Rank 2; reads files through
 * elf/.
 */
#ifndef PROFLET_SYMBOL_RESOLVE_H
#define PROFLET_SYMBOL_RESOLVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/worker.h"

struct symbol_cache;
struct symbol_batch;

/* Borrowed from the cache until its next change (want is none, complete, give_up and forget are). */
struct symbol_name {
	const char *function;		/* demangled; NULL: it is known that there is no name */
	const char *system_name;	/* linkage name where it differs from function, else NULL */
	const struct frame_line *lines; /* inlined calls, innermost first, the last is the function; NULL */
	size_t n_lines;
	bool unnamed;	     /* a function without a symbol begins at `start` */
	uint64_t start, end; /* the answer holds for ELF virtual addresses [start, end) */
};

struct symbol_cache_stats {
	size_t n_files, n_ranges, n_wanted;
	size_t n_in_jobs;      /* addresses on their way */
	size_t bytes;	       /* of the ranges and their names */
	uint64_t n_evicted;    /* ranges given up for the byte budget */
	uint64_t n_dropped;    /* addresses not collected because a maximum was reached or memory was short */
	uint64_t n_unreadable; /* addresses without a name because their file could not be read */
	uint64_t n_lines_left; /* addresses whose debug information there was no time to read */
	uint64_t n_stale;      /* jobs that came back for a file that had been forgotten */
};

#define SYMBOL_FILES_MAX 65536u
#define SYMBOL_WANTED_PER_FILE 4096u
#define SYMBOL_WANTED_MAX (256u << 10) /* addresses collected over all files */

/* 0 or -ENOMEM. Ranges that were not asked for of late are given up when `max_bytes` are passed. */
int symbol_cache_new(struct symbol_cache **ret, size_t max_bytes);
/* All jobs must have been completed: free the worker pool first. NULL is fine. */
void symbol_cache_free(struct symbol_cache *c);
/* True when the answer is known; *ret is written then only. */
bool symbol_cache_find(struct symbol_cache *c, uint32_t file_id, uint64_t va, struct symbol_name *ret);
/* Collects an address for the next job of its file, each once. 0, -ENOSPC or -ENOMEM (both counted). */
int symbol_cache_want(struct symbol_cache *c, uint32_t file_id, uint64_t va);
/* Of the files with collected addresses and no job under way the one that waits longest; false: none. */
bool symbol_cache_next_wanted(const struct symbol_cache *c, uint32_t *ret_file_id);
/* The file cannot be opened: its collected addresses become known to have no name (counted). */
void symbol_cache_give_up(struct symbol_cache *c, uint32_t file_id);
/* The file index is about to stand for another file. */
void symbol_cache_forget(struct symbol_cache *c, uint32_t file_id);
void symbol_cache_get_stats(const struct symbol_cache *c, struct symbol_cache_stats *ret);

/*
 * The collected addresses of one file on their way through a worker thread. `work.done` is set to
 * completing into the cache; whoever wants to know may put a function there that calls
 * symbol_cache_complete itself.
 */
struct symbol_job {
	struct worker_job work;
	struct symbol_cache *cache;
	struct symbol_batch *batch; /* owned */
};

/* Where the names of a file are. They may have O_PATH. */
struct symbol_files {
	int fd;
	int debug_fd;	      /* its separate debug file; -1: none */
	uint64_t debug_delta; /* to be added to the addresses there */
	bool source_lines;    /* only what has lines is answered, those of debug information among them; after
				 symbol_dwarf_load (dwarf.h) */
};

/*
 * Takes what was collected for the file. The descriptors are duplicated. 0; -ENOENT when nothing is
 * collected; -EBUSY while a job of the file is under way; -errno of dup; -ENOMEM. Nothing is taken on error.
 */
int symbol_job_new(struct symbol_job **ret, struct symbol_cache *c, uint32_t file_id,
		   const struct symbol_files *files);
/*
 * Moves the results into the cache and frees the job. A file that cannot be read gives "no name" for its
 * addresses; a job that was never run, or ran out of memory, gives them back to be collected again.
 */
void symbol_cache_complete(struct symbol_cache *c, struct symbol_job *job);

#endif
