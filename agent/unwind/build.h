// SPDX-License-Identifier: Apache-2.0
/* The job that makes a file's table: image → rows → blocks, on a worker thread. Inside unwind/ only. */
#ifndef PROFLET_UNWIND_BUILD_H
#define PROFLET_UNWIND_BUILD_H

#include "agent/base/worker.h"
#include "agent/unwind/block.h"

struct build_job {
	struct worker_job job; /* `done` is the owner's */
	void *owner;
	uint32_t file; /* index */
	int fd;	       /* owned */
	/* results */
	int error; /* 0; -ENODATA no call-frame information; -errno */
	struct unwind_blocks blocks;
	uint64_t n_rows, build_ns, n_skipped;
	char htlhash[33]; /* empty when it could not be made */
};

/* `fd` is duplicated. */
int build_job_new(struct build_job **ret, uint32_t file, int fd, void *owner,
		  void (*done)(struct worker_job *job, bool cancelled));
void build_job_free(struct build_job *j);

#endif
