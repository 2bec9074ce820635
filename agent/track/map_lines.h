// SPDX-License-Identifier: Apache-2.0
/* The lines of /proc/<pid>/maps, read by a worker thread: see requests.h for why. */
#ifndef PROFLET_TRACK_MAP_LINES_H
#define PROFLET_TRACK_MAP_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/proc/maps.h"
#include "agent/track/requests.h"

struct process;

#define MAP_LINES_CHUNK 512u /* one growing array of them would be copied whenever it grows */

struct map_lines {
	size_t n;
	struct proc_maps_line *const *chunks; /* paths are decoded; borrowed */
	bool beside_file;		      /* some code without a file is adjacent to a file's mapping */
	bool incomplete;		      /* no memory for all of them */
};

static inline const struct proc_maps_line *map_line(const struct map_lines *l, size_t i)
{
	return &l->chunks[i / MAP_LINES_CHUNK][i % MAP_LINES_CHUNK];
}

/* Takes the lines; borrowed for the call. Does not return -EAGAIN, -ETIMEDOUT or -ENOMEM. */
typedef int (*map_lines_fn)(struct process *p, const struct map_lines *lines, void *data);

/*
 * Reads the lines of all mappings, or of the executable ones, and calls `fn` with them: either at once, and
 * returns its result; or later, unless the process has ended or called execve by then, and returns -EAGAIN.
 * -ETIMEDOUT (refused), -ENOMEM: `fn` will not be called.
 */
int map_lines_read(struct requests *r, struct process *p, bool all, map_lines_fn fn, void *data);

/*
 * The same in two steps, for the executable ones (requests_begin). NULL: the lines will not be read, and
 * *ret_error is the reason: -ETIMEDOUT or -ENOMEM.
 */
struct map_lines_request *map_lines_begin(struct requests *r, struct process *p, map_lines_fn fn, void *data,
					  int *ret_error);
int map_lines_wait(struct requests *r, struct map_lines_request *l);

#endif
