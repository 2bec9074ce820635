// SPDX-License-Identifier: Apache-2.0
/*
 * A job's data on its way between the cache (symbol_cache.h) and a worker thread: addresses of one ELF file,
 * and the named ranges that cover them. Private to symbol/.
 */
#ifndef PROFLET_SYMBOL_BATCH_H
#define PROFLET_SYMBOL_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/elf/file/version.h"

struct parser_operation;

struct symbol_range {
	uint64_t start, end;
	char *names;		 /* owned; "FUNCTION\0" or "FUNCTION\0LINKAGE NAME\0"; NULL: no name */
	uint32_t system_name_at; /* offset of the linkage name in `names`; 0: it is the same */
	uint32_t names_bytes : 30;
	uint32_t unnamed : 1;	  /* a function without a symbol begins at `start` */
	uint32_t used : 1;	  /* looked up since the last eviction sweep; true in a new range */
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
	uint64_t serial; /* tells apart the jobs of two files that used the same index one after the other */
	int fd;		 /* owned; -1: there is none */
	int debug_fd;	 /* the separate debug file; owned; -1: there is none */
	struct elf_version version, debug_version; /* of the contents whose names are wanted */
	bool any_version, any_debug_version;	   /* the one, or the other, is not known */
	uint64_t debug_delta;
	bool of_system; /* both are files of the system's own */
	/* Return only addresses with source lines, including those from debug information. */
	bool source_lines;
	size_t n_lines_left; /* addresses whose debug information was not read because time ran out */
	uint64_t *addrs;     /* owned; sorted, each once */
	size_t n_addrs;
	struct symbol_ranges
		ranges; /* the result; covers all addresses unless `status` is one of the first three: */
	/* -ECANCELED: did not run; -ENOMEM; -EAGAIN: no process; else 0, or why the file could not be read */
	int status;
};

extern const struct parser_operation symbol_operation;

/*
 * Opens the file and resolves all addresses, where the file can do no harm (agent/parser); source lines,
 * which are for trusted files only, here. Uses no shared state, so any thread may call it.
 */
void symbol_batch_run(struct symbol_batch *b);
/*
 * Reads and checks what a parser process has answered: ranges that cover all addresses of the batch. 0;
 * -EBADMSG: the bytes are no answer; -ENOMEM.
 */
int symbol_answer_read(struct symbol_batch *b, const void *bytes, size_t len);
/* Sets the result of each address to "no name". 0 or -ENOMEM. */
int symbol_batch_answer_none(struct symbol_batch *b);
void symbol_batch_free(struct symbol_batch *b); /* NULL is fine */

/* The range that contains `va`, or NULL. Borrowed. */
struct symbol_range *symbol_ranges_find(const struct symbol_ranges *r, uint64_t va);
/* Removes all but the first n ranges. The caller has finished the others. */
void symbol_ranges_truncate(struct symbol_ranges *r, size_t n);
void symbol_range_fini(struct symbol_range *r);
/* Bytes of memory that a range uses. */
size_t symbol_range_bytes(const struct symbol_range *r);
void symbol_ranges_fini(struct symbol_ranges *r);
/*
 * Moves the ranges of `from` into `into`. Where two ranges overlap, the one that starts first gets the common
 * part, so the union of the addresses stays covered. 0; -ENOMEM: nothing has changed.
 */
int symbol_ranges_merge(struct symbol_ranges *into, struct symbol_ranges *from);

#endif
