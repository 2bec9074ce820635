// SPDX-License-Identifier: Apache-2.0
/*
 * The processes that are known, with their executable mappings. Identity is (pid, start): a process that
 * ended stays findable by time until its samples have been drained, up to PROC_ENDED_MAX of them. Rank 1;
 * owns its processes.
 *
 * Mapping lists are shared: a fork holds its parent's until either changes (proc_maps_own makes a private
 * copy).
 */
#ifndef PROFLET_PROC_TABLE_H
#define PROFLET_PROC_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/map.h"
#include "agent/proc/image.h"

#define PROC_FILE_NONE 0u /* memory without a file */
/* In place of a file index, with a number: the file is being opened. It is not in published lists. */
#define PROC_FILE_OPENING (1u << 31)
#define PROC_ENDED_MAX 16384u /* processes that are over; the one that ended first is forgotten */

/* One executable mapping. */
struct proc_mapping {
	uint64_t start, end; /* process addresses */
	uint64_t offset;     /* of `start` in the file, bytes */
	uint32_t file;	     /* file index, PROC_FILE_NONE, PROC_FILE_OPENING | number */
};

/* A list of mappings, ascending; shared by reference count. */
struct proc_maps {
	unsigned refs;
	uint32_t n, cap;
	bool dirty; /* differs from what is published */
	struct proc_mapping *entries;
	/* What the publisher keeps for it, released with the list. */
	uint32_t published_ref, published_len, published_change, published_generation;
	void (*release)(struct proc_maps *m, void *data);
	void *release_data;
};

struct process {
	struct map_node node;	 /* in the table, where it is the newest of its pid */
	struct process *earlier; /* of the same pid; ended */
	struct process *next_ended;
	uint32_t pid;
	uint32_t parent_pid;	  /* that forked it; 0 unknown */
	uint64_t start_ns;	  /* CLOCK_MONOTONIC; 0 for processes that were there before us */
	uint64_t exec_ns;	  /* of its last execve that was seen, 0 none */
	uint64_t end_ns;	  /* 0 while alive */
	unsigned refs;		  /* the table's own, and those of samples that wait for a table */
	struct proc_image *image; /* what it is called, now and before; agent/proc/image.h */
	uint32_t n_images;
	size_t *n_images_all; /* of all processes of the table; NULL: of none */
	bool scanned;	      /* its attributes were read from /proc */
	bool kernel_thread;
	bool main_over;		/* its main thread has ended, others may go on */
	uint32_t n_threads;	/* other than the main one, as far as events tell */
	uint32_t scan_serial;	/* of the last scan that saw it */
	uint32_t published_ref; /* what the kernel's process table says; 0 not in it */
	bool in_kernel_table;
	bool publish_waits;	   /* it is to be published, and stands in line */
	uint64_t publish_after_ns; /* not before */
	bool published_stack;	   /* whether that asks for the stack */
	/* where events do not tell of mappings: when they are read again, see track_miss() */
	uint64_t miss_after_ns, miss_wait_ns, reread_after_ns;
	/* Lists of mappings that are not its own: those up to `born_generation`, unless it has inherited it.
	 */
	uint32_t born_generation, inherited_generation;
	struct proc_maps *maps;	      /* one reference */
	struct proc_history *history; /* mappings that were; agent/proc/history.h. NULL: none */
	/* It was forked, called execve twice, or replaced mappings, lately: its samples bring their stack
	 * along. */
	bool keep_stack;
	uint64_t keep_stack_until_ns;
};

struct proc_table;

int proc_table_new(struct proc_table **ret, size_t max_processes);
void proc_table_free(struct proc_table *t);
/* Borrowed until the next change of the table; NULL when unknown. */
struct process *proc_table_get(const struct proc_table *t, uint32_t pid);
/* Who was `pid` at that time: the living one, or one that ended. NULL when unknown. Borrowed. */
struct process *proc_table_at(const struct proc_table *t, uint32_t pid, uint64_t time_ns);
/*
 * Adds a process without names and mappings; a living one of the same pid is ended. It starts no earlier than
 * the one before it ended. 0, -ENOMEM, -ENOSPC (counted).
 */
int proc_table_add(struct proc_table *t, uint32_t pid, uint64_t start_ns, struct process **ret);
/* Adds one that was over, before those of that pid that are known. 0 or -ENOMEM. */
int proc_table_add_ended(struct proc_table *t, uint32_t pid, uint64_t end_ns, struct process **ret);
/* Takes it out of the living. It stays findable by time until proc_table_reap. */
void proc_table_end(struct proc_table *t, struct process *p, uint64_t time_ns);
/* Forgets those that ended before `time_ns`. */
void proc_table_reap(struct proc_table *t, uint64_t time_ns);
void proc_table_each(const struct proc_table *t, void (*fn)(struct process *p, void *data), void *data);
size_t proc_table_len(const struct proc_table *t);
uint64_t proc_table_full(const struct proc_table *t); /* processes refused at the maximum */

struct process *process_ref(struct process *p);
void process_unref(struct process *p);

int proc_maps_new(struct proc_maps **ret);
struct proc_maps *proc_maps_ref(struct proc_maps *m);
void proc_maps_unref(struct proc_maps *m);
/* Makes p->maps private to p, so that it may be changed. 0 or -ENOMEM. */
int proc_maps_own(struct process *p);
/*
 * Puts a mapping in, cutting or removing what it overlaps; memory without a file becomes one with what
 * touches it, from PROC_MAPS_APART entries on also with what is near. `m` must be private. 0, -ENOMEM,
 * -ENOSPC at PROC_MAPS_MAX.
 */
int proc_maps_insert(struct proc_maps *m, struct proc_mapping mapping);
/* Whether something else is mapped where `mapping` will be. */
bool proc_maps_replaces(const struct proc_maps *m, const struct proc_mapping *mapping);
/* Whether the list says already all that `mapping` does. */
bool proc_maps_has(const struct proc_maps *m, const struct proc_mapping *mapping);
/* The mapping that covers `address`, NULL. Borrowed. */
const struct proc_mapping *proc_maps_find(const struct proc_maps *m, uint64_t address);

#define PROC_MAPS_MAX 32768u
#define PROC_MAPS_APART 1024u

#endif
