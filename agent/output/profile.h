// SPDX-License-Identifier: Apache-2.0
/*
 * One recording, accumulated: weighted stacks of named frames, kept as one prefix tree per process, thread
 * and container, from which the writers of this folder (folded, pprof, html, top) make their files. It copies
 * what it keeps.
 *
 * Memory is bounded. When half of it is used, processes of the same name with few samples share a tree and
 * lose their pids: a host may start hundreds of processes a second. Past the maximum a stack becomes one
 * frame
 * "[other]" of its process, counted, never lost. Not thread safe.
 */
#ifndef PROFLET_OUTPUT_PROFILE_H
#define PROFLET_OUTPUT_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/frame.h"

struct output_profile;

/* What the recording was. Strings are copied; NULL stands for unknown. */
struct output_info {
	uint64_t start_unix_ns, duration_ns;
	uint32_t frequency_hz; /* samples per second and CPU; 0: unknown, CPU time is then left out */
	const char *hostname;
	const char *command;	     /* what was started and profiled, NULL for a recording of the host */
	const char *version;	     /* of proflet */
	uint64_t n_taken, n_dropped; /* samples, as the kernel side counted them */
	size_t max_nodes;	     /* tree nodes kept, 0 = OUTPUT_MAX_NODES */
};

/* Borrowed for the call. */
struct output_stack {
	const char *process; /* comm or the executable's name */
	uint32_t pid;
	const char *thread;	    /* name, may be NULL */
	const char *container;	    /* 64 hex digits; NULL: a process of the host */
	const char *container_name; /* or NULL */
	const struct frame *frames; /* leaf first */
	size_t n_frames;
	uint64_t count;
	bool complete; /* the unwind reached the root */
};

#define OUTPUT_MAX_NODES (1u << 20)
#define OUTPUT_MAX_DEPTH 2048 /* frames of one stack; a deeper one goes to [other] */
#define OUTPUT_MAX_NAME 4096  /* bytes of one name; longer ones are cut */

int output_profile_new(struct output_profile **ret, const struct output_info *info);
void output_profile_free(struct output_profile *p);
/* Replaces everything but max_nodes: counts and duration are known when the recording ends. 0 or -ENOMEM
 * (unchanged). */
int output_profile_set_info(struct output_profile *p, const struct output_info *info);
/*
 * 0; -ENOSPC (a maximum) or -ENOMEM when the stack was counted as [other] instead. The samples are in the
 * profile in every case, so that a caller which only wants the sum right may go on.
 */
int output_profile_add(struct output_profile *p, const struct output_stack *s);
uint64_t output_profile_samples(const struct output_profile *p); /* all that were added */
uint64_t output_profile_merged(const struct output_profile *p);	 /* of these, the ones that became [other] */

static inline void output_profile_free_p(struct output_profile **p)
{
	output_profile_free(*p);
}
#define _cleanup_output_profile_ __attribute__((cleanup(output_profile_free_p)))

#endif
