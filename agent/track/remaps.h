// SPDX-License-Identifier: Apache-2.0
/*
 * Copies of code. Some programs move their code to anonymous memory at the same addresses, to have it on huge
 * pages. No file is behind that memory any more, but what is left of the file's mappings lies next to it and
 * says where the file's segments would be. Where the bytes are those of the file, its table and names apply.
 *
 * Programs that do it by mremap(2) cause no event. For a process that was known before, the old mappings stay
 * in the process table, and a scan of /proc finds the others. Other programs map new memory over their code
 * and then fill it: the event comes before the bytes, so these processes are checked again a little later.
 * Main loop only.
 */
#ifndef PROFLET_TRACK_REMAPS_H
#define PROFLET_TRACK_REMAPS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/track/gaps.h"
#include "agent/track/requests.h"

struct binary_registry;
struct openings;
struct proc_mapping;
struct proc_table;
struct process;
struct publication;
struct remaps;

#define REMAPS_MAX 64 /* processes that are checked again */

struct remaps_options {
	const struct track_host *host;
	struct requests *requests;
	struct proc_table *processes;
	struct openings *openings;
	struct publication *publication;
	struct binary_registry *binaries;
	struct gaps *gaps;
};

struct remaps_stats {
	uint64_t found; /* processes with copies of code */
	uint64_t full;	/* processes not checked again: there were REMAPS_MAX already */
	uint64_t cut; /* readings that left out some of the places where copies may be: there are too many */
};

/* Everything in `options` is borrowed. 0 or -ENOMEM. */
int remaps_new(struct remaps **ret, const struct remaps_options *options);
void remaps_free(struct remaps *r); /* NULL is fine */
/* Whether executable memory of that binary, or of none, with that name in maps (NULL: none) may be a copy. */
bool remaps_possible(const struct remaps *r, uint32_t file, const char *path);
/* Looks for copies in a process, by /proc, and maps the binary there. True when there was one. */
bool remaps_read(struct remaps *r, struct process *p);
/* A mapping is about to be inserted. If it replaces code, the process is checked again. */
void remaps_note(struct remaps *r, const struct process *p, const struct proc_mapping *m);
/* Whether `m` has no file and its process will be checked again: by then it may be a copy. */
bool remaps_pending(const struct remaps *r, const struct process *p, const struct proc_mapping *m);
/* Checks the processes that are due. */
void remaps_retry(struct remaps *r);
void remaps_stats(const struct remaps *r, struct remaps_stats *ret);

#endif
