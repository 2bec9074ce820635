// SPDX-License-Identifier: Apache-2.0
/*
 * One process. Its identity is (pid, start). What it is called (image.h) and which mappings it had
 * (history.h) are modules of their own, on top of this one; the table (table.h) makes processes and ends
 * them.
 */
#ifndef PROFLET_PROC_PROCESS_H
#define PROFLET_PROC_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/map.h"

struct proc_history;
struct proc_image;
struct proc_maps;

struct process {
	struct map_node node;	 /* in the table, where it is the newest of its pid */
	struct process *earlier; /* of the same pid; ended */
	struct process *next_ended;
	uint32_t pid;
	uint32_t parent_pid;		    /* that forked it; 0 unknown */
	uint64_t start_ns;		    /* CLOCK_MONOTONIC; 0 for processes that were there before us */
	uint64_t exec_ns;		    /* of its last execve that was seen, 0 none */
	uint64_t end_ns;		    /* 0 while alive */
	unsigned refs;			    /* the table's own, and those of samples that wait for a table */
	void (*destroy)(struct process *p); /* called when the last reference goes; set by the table */
	struct proc_image *image;	    /* what it is called, now and before; agent/proc/image.h */
	uint32_t n_images;
	size_t *n_images_all; /* of all processes of the table; NULL: of none */
	bool scanned;	      /* its attributes were read from /proc */
	bool kernel_thread;
	bool main_over;	      /* its main thread has ended, others may go on */
	uint32_t n_threads;   /* other than the main one, as far as events tell */
	uint32_t scan_serial; /* of the last scan that saw it */
	/* where events do not tell of mappings: when they are read again, see track_miss() */
	uint64_t miss_after_ns, miss_wait_ns, reread_after_ns;
	/* Published lists up to `born_generation` are not of its mappings, except the one it inherited. */
	uint32_t born_generation, inherited_generation;
	struct proc_maps *maps;	      /* one reference */
	struct proc_history *history; /* mappings that were; agent/proc/history.h. NULL: none */
	/* It was forked, called execve twice, or replaced mappings, lately: its samples bring their stack
	 * along. */
	bool keep_stack;
	uint64_t keep_stack_until_ns;
};

struct process *process_ref(struct process *p);
void process_unref(struct process *p);
/* Makes p->maps private to p, so that it may be changed. 0 or -ENOMEM. */
int proc_maps_own(struct process *p);

#endif
