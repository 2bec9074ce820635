// SPDX-License-Identifier: Apache-2.0
/*
 * The binaries of mapping events. A program may map pieces of one file thousands of times a second, and
 * opening the file each time costs a request to another thread. So the file that a process has mapped often
 * within a second is not opened again in that second, nor while it is being opened, and later once a second.
 * Main loop only.
 */
#ifndef PROFLET_TRACK_EVENT_FILES_H
#define PROFLET_TRACK_EVENT_FILES_H

#include <stdbool.h>
#include <stdint.h>

struct openings;
struct proc_files;
struct process;
struct sideband_event;

#define EVENT_FILES_SLOTS 64u
#define EVENT_FILES_OFTEN 16u /* from this number of mappings in a second on */

/* A file as one program maps it. */
struct event_file {
	uint32_t pid; /* 0: the slot is free */
	uint32_t dev_major, dev_minor;
	uint64_t start_ns, exec_ns; /* of the process, and of its program */
	uint64_t inode, generation, path_hash;
	uint64_t since_ns; /* mappings are counted from then on */
	uint64_t last_ns;  /* when it was mapped last */
	unsigned n;
	bool known; /* `file` is what opening it has led to; it is held */
	uint32_t file;
	const struct proc_files *holder;
	uint32_t ticket; /* of the opening that is on its way; 0: none */
};

/* Embedded; zeroed, it is empty. */
struct event_files {
	struct event_file slots[EVENT_FILES_SLOTS];
};

void event_files_fini(struct event_files *f);
/* Call now and then: drops the files that were not mapped any more after `before_ns`. */
void event_files_forget(struct event_files *f, uint64_t before_ns);
/* A ticket was replaced by what it stands for, or by another ticket. */
void event_files_resolved(struct event_files *f, uint32_t ticket, uint32_t to);
/* As openings_of_event. */
uint32_t event_files_find(struct event_files *f, struct openings *o, const struct process *p,
			  const struct sideband_event *v);

#endif
