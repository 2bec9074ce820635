// SPDX-License-Identifier: Apache-2.0
/*
 * The processes that are known, with their executable mappings. Identity is (pid, start): a process that
 * ended stays findable by time until its samples have been drained. Rank 1; owns its processes.
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
#include "agent/proc/stat.h"

#define PROC_FILE_NONE 0u /* memory without a file */
/* In place of a file index, with a number: the file is being opened. It is not in published lists. */
#define PROC_FILE_OPENING (1u << 31)

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
	uint32_t published_ref, published_len, published_change;
	void (*release)(struct proc_maps *m, void *data);
	void *release_data;
};

struct process {
	struct map_node node; /* in the table by pid, while alive */
	struct process *next_ended;
	uint32_t pid;
	uint32_t parent_pid; /* that forked it; 0 unknown */
	uint64_t start_ns;   /* CLOCK_MONOTONIC; 0 for processes that were there before us */
	uint64_t exec_ns;    /* of the last execve seen, 0 none */
	uint64_t end_ns;     /* 0 while alive */
	unsigned refs;	     /* the table's own, and those of samples that wait for a report */
	char comm[PROC_TASK_COMM_LEN];
	char *exe;	    /* path of the executable, NULL while unknown; owned */
	char *service_name; /* its OTEL_SERVICE_NAME, NULL: none, or not read yet; owned */
	bool environ_read;
	bool scanned; /* its attributes were read from /proc */
	bool kernel_thread;
	uint32_t scan_serial; /* of the last scan that saw it */
	bool selected;
	uint32_t published_ref; /* what the kernel's process table says; 0 not in it */
	bool in_kernel_table;
	bool published_stack;	      /* whether that asks for the stack */
	struct proc_maps *maps;	      /* one reference */
	struct proc_history *history; /* mappings that were; agent/proc/history.h. NULL: none */
	/* It was forked, or mappings were replaced, lately: its samples bring their stack along. */
	bool keep_stack;
	uint64_t keep_stack_until_ns;
	void *context;	     /* the workload; owned through context_free */
	uint64_t context_ns; /* when it was read */
	void (*context_free)(void *context);
};

struct proc_table;

int proc_table_new(struct proc_table **ret, size_t max_processes);
void proc_table_free(struct proc_table *t);
/* Borrowed until the next change of the table; NULL when unknown. */
struct process *proc_table_get(const struct proc_table *t, uint32_t pid);
/* Who was `pid` at that time: the living one, or one that ended after it. NULL when unknown. Borrowed. */
struct process *proc_table_at(const struct proc_table *t, uint32_t pid, uint64_t time_ns);
/* Adds a process without mappings; replaces one of the same pid (which is ended). 0, -ENOMEM, -ENOSPC
 * (counted). */
int proc_table_add(struct proc_table *t, uint32_t pid, uint64_t start_ns, struct process **ret);
/* Takes it out of the living. It stays findable by time until proc_table_reap. */
void proc_table_end(struct proc_table *t, struct process *p, uint64_t time_ns);
/* Forgets those that ended before `time_ns`; calls fn for each first. */
void proc_table_reap(struct proc_table *t, uint64_t time_ns, void (*fn)(struct process *p, void *data),
		     void *data);
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
