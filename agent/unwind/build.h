// SPDX-License-Identifier: Apache-2.0
/* The job that makes a file's table: image → rows → blocks, on a worker thread. Inside unwind/ only. */
#ifndef PROFLET_UNWIND_BUILD_H
#define PROFLET_UNWIND_BUILD_H

#include "agent/base/worker.h"
#include "agent/unwind/block.h"
#include "agent/unwind/debugfile.h"

struct build_job {
	struct worker_job job; /* `done` and `overdue` are the owner's */
	void *owner;
	uint32_t file;		/* index */
	int fd;			/* owned */
	int debug_fd;		/* of the debug file that an earlier table needed; owned; -1 */
	char *path;		/* of the binary; owned */
	struct proc_root *root; /* where its debug file may be; a reference; NULL: not looked for */
	/* results */
	struct debug_file debug; /* its debug file, when rows come from there */
	struct debug_file names; /* its debug file, when that has names which the binary lacks; only named */
	int error;		 /* 0; -ENODATA no call-frame information; -errno */
	struct unwind_blocks blocks;
	uint64_t n_rows, build_ns, n_skipped;
	char htlhash[33]; /* empty when it could not be made */
};

struct binary;

/* Duplicates the file's descriptors. */
int build_job_new(struct build_job **ret, const struct binary *f, void *owner,
		  void (*done)(struct worker_job *job, bool cancelled),
		  void (*overdue)(struct worker_job *job));
void build_job_free(struct build_job *j);

#endif
