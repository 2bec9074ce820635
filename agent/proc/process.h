// SPDX-License-Identifier: Apache-2.0
/*
 * One process. Its identity is (pid, start). Its names (image.h) and its former mappings (history.h) are
 * modules of their own; the table (table.h) creates and ends processes.
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
	struct map_node node;	 /* in the table; only the newest process of a pid is */
	struct process *earlier; /* the previous process of the same pid, ended */
	struct process *next_ended;
	uint32_t pid;
	uint32_t parent_pid;		    /* the process that forked it; 0: unknown */
	uint64_t start_ns;		    /* CLOCK_MONOTONIC; 0 for processes older than the agent */
	uint64_t exec_ns;		    /* of its last known execve; 0: none */
	uint64_t end_ns;		    /* 0 while alive */
	unsigned refs;			    /* of the table, and of samples that wait for a table */
	void (*destroy)(struct process *p); /* called when the last reference is dropped; set by the table */
	struct proc_image *image;	    /* its names, the newest image; agent/proc/image.h */
	uint32_t n_images;
	size_t *n_images_all; /* the number of images of all processes in the table; NULL: not counted */
	bool scanned;	      /* its attributes were read from /proc */
	bool kernel_thread;
	bool main_over;	      /* its main thread has ended, other threads may run */
	uint32_t n_forks;     /* processes that events have reported it to create */
	uint32_t n_threads;   /* threads other than the main one, as far as events report them */
	uint32_t scan_serial; /* the last scan that saw it */
	/* How often events have reported mappings since then: see agent/track/floods.h. */
	uint64_t mapped_since_ns;
	uint32_t n_mapped;
	bool flooded;	      /* events that are not applied wait for its mappings to be read */
	bool mappings_logged; /* the log says that there are too many, or too many new ones */
	/* Where events do not report mappings: when they are read again, see track_miss(). */
	uint64_t miss_after_ns, miss_wait_ns, reread_after_ns;
	/* Published lists up to `born_generation` are not of its mappings, except the one it inherited. */
	uint32_t born_generation, inherited_generation;
	struct proc_maps *maps;	    /* one reference */
	unsigned n_reading;	    /* requests for its lines of /proc/PID/maps that are not answered yet */
	struct proc_maps *reported; /* ranges that events have mapped since the first of these. NULL: none */
	struct proc_history *history; /* its former mappings; agent/proc/history.h. NULL: none */
	/*
	 * It recently forked, called execve twice, or replaced mappings, so its samples include their
	 * saved stack.
	 */
	bool save_stack;
	uint64_t save_stack_until_ns;
};

struct process *process_ref(struct process *p);
void process_unref(struct process *p);
/* Makes p->maps private to p, so that it can be changed. 0 or -ENOMEM. */
int proc_maps_own(struct process *p);
/*
 * A request for the lines of the process's maps begins or ends. An event has reported the range of a mapping,
 * which is newer than lines that are being read: 0 or -ENOMEM.
 */
void process_read_begin(struct process *p);
void process_read_end(struct process *p);
int process_reported(struct process *p, uint64_t start, uint64_t end);

#endif
