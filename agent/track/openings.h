// SPDX-License-Identifier: Apache-2.0
/*
 * Mapping → open file → binary. The file is opened as soon as the mapping is reported: a process that ends
 * takes its /proc entry with it, and a container its root file system. Where opening takes long, the mapping
 * gets a ticket in place of the binary; such mappings are not published, so samples there wait. Where the
 * file system does not answer, they do not: the mapping is published as memory without a file, and keeps a
 * ticket, so that it gets its binary whenever that comes. Main loop only.
 */
#ifndef PROFLET_TRACK_OPENINGS_H
#define PROFLET_TRACK_OPENINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/track/gaps.h"
#include "agent/track/requests.h"

struct binary_registry;
struct openings;
struct proc_maps_line;
struct proc_table;
struct publication;
struct sideband_event;
struct unwind_tables;

struct openings_options {
	struct requests *requests;
	struct proc_table *processes;
	struct publication *publication;
	struct binary_registry *binaries;
	struct unwind_tables *tables;
	struct gaps *gaps;
	bool debug_files; /* look for separate debug files of binaries with incomplete unwind information */
};

struct openings_stats {
	uint64_t opened, failed;
	uint64_t changed;     /* refused: the file that was found has changed since it was mapped */
	uint64_t gone;	      /* the process or the mapping was gone already */
	uint64_t known;	      /* the same, but the binary was known by device, inode and generation */
	uint64_t other;	      /* of those opened: found through an ancestor of the process */
	uint32_t refused_pid; /* the last process with a binary that the registry did not take; 0: none */
	uint64_t stuck;	      /* their file systems did not answer in time; they may have answered since */
};

/* Everything in `options` is borrowed. 0 or -errno. */
int openings_new(struct openings **ret, const struct openings_options *options);
/* Sets a function that is called when a ticket is replaced by what it stands for, or by another ticket. */
void openings_on_resolved(struct openings *o, void (*fn)(uint32_t ticket, uint32_t to, void *data),
			  void *data);
/* After the threads that answer requests have ended. NULL is fine. */
void openings_free(struct openings *o);

/*
 * The binary that is mapped there: its index, to be held at once; PROC_FILE_NONE for memory without a file,
 * and for files that cannot be opened; a ticket (PROC_FILE_OPENING) while it is being opened.
 */
uint32_t openings_of_line(struct openings *o, uint32_t pid, const struct proc_maps_line *line,
			  const char *path);
uint32_t openings_of_event(struct openings *o, const struct sideband_event *e);
/*
 * Whether the file that an earlier call has led to need not be opened again: its times say that it has not
 * changed.
 */
bool openings_current(const struct openings *o, uint32_t file);
/* The index of the kernel's vDSO; PROC_FILE_NONE where there is none. */
uint32_t openings_vdso(const struct openings *o);
void openings_stats(const struct openings *o, struct openings_stats *ret);

#endif
