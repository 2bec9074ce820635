// SPDX-License-Identifier: Apache-2.0
/*
 * The job that builds the unwind table of a binary on a worker thread, by table_job.h. Created and taken back
 * by tables.c.
 */
#ifndef PROFLET_UNWIND_BUILD_H
#define PROFLET_UNWIND_BUILD_H

#include <stdatomic.h>

#include "agent/base/worker.h"
#include "agent/elf/file/version.h"
#include "agent/unwind/block.h"

struct build_debug {
	int fd;		/* with O_PATH; owned; -1: there is none */
	uint64_t delta; /* add it to an address of the debug file to get the binary's */
	struct elf_version version;
};

struct build_job {
	struct worker_job job; /* `done` and `overdue` are the owner's */
	void *owner;
	uint32_t file;		     /* index */
	int fd;			     /* owned */
	struct elf_version version;  /* of the content whose table is wanted */
	bool any_version;	     /* it is not an ELF file */
	int debug_fd;		     /* the debug file that an earlier build of this table used; owned; -1 */
	char *path;		     /* of the binary; owned */
	struct generated *generated; /* code without a file: what is known of it; borrowed; NULL */
	struct proc_root *root;	     /* where to look for its debug file; a reference; NULL: do not look */
	/*
	 * What is known of the language runtime while the job runs: it is put there by the job, and taken by
	 * the owner; owned. `n_early` counts what was put there.
	 */
	_Atomic(struct runtime_facts *) early;
	atomic_uint *n_early; /* borrowed; NULL: nothing is taken */
	/* results */
	struct build_debug debug; /* the debug file, when rows come from it */
	struct build_debug names; /* the debug file, when it has names that the binary lacks; not read here */
	int error;		  /* 0; -ENODATA no call-frame information; -ESTALE other content; -errno */
	struct unwind_blocks blocks;
	uint64_t n_rows, build_ns, n_skipped;
	char htlhash[33];	       /* empty when it could not be made */
	bool of_system;		       /* the binary is a file of the system's own */
	struct runtime_facts *runtime; /* owned; NULL: none */
};

struct binary;
struct runtime_facts;
struct generated;

/* Duplicates the binary's descriptors. The job is to be submitted to a worker. 0, -ENOMEM, -errno. */
int build_job_new(struct build_job **ret, const struct binary *f, void *owner,
		  void (*done)(struct worker_job *job, bool cancelled),
		  void (*overdue)(struct worker_job *job));
/* The same for code that a process has generated, whose requests were moved to the job. 0 or -ENOMEM. */
int build_job_generated(struct build_job **ret, uint32_t file, struct generated *generated, void *owner,
			void (*done)(struct worker_job *job, bool cancelled),
			void (*overdue)(struct worker_job *job));
void build_job_free(struct build_job *j);

#endif
