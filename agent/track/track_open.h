// SPDX-License-Identifier: Apache-2.0
/*
 * One file on its way from a mapping to a file index: found and, if it is not known, read on a thread, put
 * into the cache on the main loop. Part of a question (agent/track/track_ask.h). Rank 3.
 */
#ifndef PROFLET_TRACK_OPEN_H
#define PROFLET_TRACK_OPEN_H

#include "agent/probe/sideband.h"
#include "agent/proc/open.h"

struct proc_root;
struct track;
struct binary;

#define OPENING_OTHERS 4u /* ancestors whose root is tried when the process is gone */

struct opening {
	struct proc_open_request req;
	char *path; /* owned */
	uint8_t build_id[SIDEBAND_BUILD_ID_MAX];
	uint8_t build_id_len; /* 0: not known */
	uint32_t others[OPENING_OTHERS];
	bool read, with_root;
	/* the answer */
	bool tried;
	int error;
	struct proc_opened opened; /* fd: owned, O_PATH; -1 */
	struct binary *file;	   /* owned; NULL: not read */
	struct proc_root *root;	   /* one reference; NULL */
	uint32_t index;		   /* of a file that is known */
};

/* Copies what the request borrows. 0 or -ENOMEM. */
int opening_init(struct opening *o, const struct track *t, const struct proc_open_request *req);
void opening_fini(struct opening *o);
/* On a thread: does what is missing. */
void opening_run(struct opening *o, int proc_fd, struct proc_open_watch *watch);
/* On the main loop: whether it has to be read. */
bool opening_again(struct track *t, struct opening *o);
/* The file's index; PROC_FILE_NONE where it cannot be had (counted). Once. */
uint32_t opening_settle(struct track *t, struct opening *o);

#endif
