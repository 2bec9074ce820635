// SPDX-License-Identifier: Apache-2.0
/*
 * The files that a scan of /proc has come across. Hundreds of processes map the same few libraries, and
 * opening each of them costs a request to another thread. During a scan, a file is taken to be the same where
 * mount namespace, device, inode and path are equal. The path counts because subvolumes (btrfs) share the
 * device that maps shows and number their inodes independently; the namespace, because a path means what the
 * process sees under it.
 */
#ifndef PROFLET_TRACK_SEEN_FILES_H
#define PROFLET_TRACK_SEEN_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/map.h"
#include "agent/track/track_host.h"

struct proc_files;

/* Embedded. Outside of a scan it is empty, and nothing is found in it. */
struct seen_files {
	const struct proc_view *proc; /* borrowed; NULL: no scan */
	struct map files;
	const struct proc_files
		*holder;    /* borrowed; counts references: a seen file has one. NULL: none are counted */
	uint32_t pid;	    /* the process last seen */
	uint64_t namespace; /* its mount namespace; 0: it could not be read */
};

void seen_files_begin(struct seen_files *s, const struct proc_view *proc);
void seen_files_end(struct seen_files *s);
/* The index of the binary that such a line stood for before. */
bool seen_files_find(struct seen_files *s, uint32_t pid, const struct proc_maps_line *line,
		     uint32_t *ret_file);
void seen_files_add(struct seen_files *s, uint32_t pid, const struct proc_maps_line *line, uint32_t file,
		    const struct proc_files *holder);

#endif
