// SPDX-License-Identifier: Apache-2.0
/*
 * Addresses of one file and the named ranges that answer them: what a job carries from the cache to a
 * worker thread and back. Within this folder only.
 */
#ifndef PROFLET_SYMBOL_BATCH_H
#define PROFLET_SYMBOL_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct symbol_range {
	uint64_t start, end;
	char *names;		 /* owned; "FUNCTION\0" or "FUNCTION\0LINKAGE NAME\0"; NULL: no name */
	uint32_t system_name_at; /* offset of the linkage name in `names`; 0: it is the same */
	uint32_t names_bytes : 30;
	uint32_t unnamed : 1; /* a function without a symbol: it begins at `start` */
	uint32_t used : 1;    /* asked for since the last sweep for memory; new ranges count as asked for */
	struct frame_line *lines; /* owned, one block; NULL: the source is not known */
	uint32_t n_lines;
	uint32_t lines_bytes;
};

/* Sorted by start, none empty, none overlapping. */
struct symbol_ranges {
	struct symbol_range *v; /* owned */
	size_t n;
};

struct symbol_batch {
	uint32_t file_id;
	uint64_t serial; /* tells the jobs of a file index apart when it stands for another file meanwhile */
	int fd;		 /* owned; -1: there is none */
	int debug_fd;	 /* of its separate debug file; owned; -1 */
	uint64_t debug_delta;
	bool source_lines;   /* only what has lines is answered, with those of debug information */
	size_t n_lines_left; /* addresses whose debug information there was no time to read */
	uint64_t *addrs;     /* owned; sorted, each once */
	size_t n_addrs;
	struct symbol_ranges ranges; /* the answer; covers all of addrs unless status is one of these two: */
	int status;		     /* -ECANCELED: not run; -ENOMEM; else 0 or why the file was unreadable */
};

/* Opens the image and answers all addresses. No shared state; any thread. */
void symbol_batch_run(struct symbol_batch *b);
/* Answers each address with "no name". 0 or -ENOMEM. */
int symbol_batch_answer_none(struct symbol_batch *b);
void symbol_batch_free(struct symbol_batch *b); /* NULL is fine */

/* The range that holds `va`, or NULL. Borrowed. */
struct symbol_range *symbol_ranges_find(const struct symbol_ranges *r, uint64_t va);
/* Forgets all but the first n; the caller has freed the names of the others. */
void symbol_ranges_truncate(struct symbol_ranges *r, size_t n);
void symbol_range_fini(struct symbol_range *r);
/* What a range costs. */
size_t symbol_range_bytes(const struct symbol_range *r);
void symbol_ranges_fini(struct symbol_ranges *r);
/*
 * Moves `from` into `into`. Where ranges overlap the one that starts first keeps the common part, so what
 * either covered stays covered. 0, or -ENOMEM and nothing has changed.
 */
int symbol_ranges_merge(struct symbol_ranges *into, struct symbol_ranges *from);

#endif
