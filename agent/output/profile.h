// SPDX-License-Identifier: Apache-2.0
/*
 * One recording: counted stacks of named frames, in one prefix tree per process, thread and container. The
 * writers of this folder (folded, pprof, html, top) make their files from it. All strings are copied.
 *
 * Memory is bounded. When half of it is used, processes of the same name with few samples are folded into one
 * tree without pid, since a host may start hundreds of processes per second. Beyond the maximum, a stack is
 * counted as the frame "[other]" of its process, so that no sample is lost. Times of samples are counted in
 * at most OUTPUT_MAX_COLUMNS columns of equal width, which become wider as the recording becomes longer, or
 * when more than about OUTPUT_MAX_NODES pairs of a stack and a column have samples. Not thread safe.
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
	uint64_t n_taken, n_dropped; /* samples, as counted by the kernel side */
	size_t max_nodes;	     /* tree nodes kept, 0 = OUTPUT_MAX_NODES */
	size_t max_string_bytes;     /* of all names, 0 = OUTPUT_MAX_STRING_BYTES */
};

/* Borrowed for the call. */
struct output_stack {
	const char *process; /* comm or the executable's name */
	uint32_t pid;
	const char *thread;	    /* name, may be NULL */
	uint32_t tid;		    /* 0: unknown */
	uint16_t cpu;		    /* 0 unless the samples of each CPU are wanted apart */
	const char *container;	    /* 64 hex digits; NULL: a process of the host */
	const char *container_name; /* or NULL */
	const struct frame *frames; /* leaf first */
	size_t n_frames;
	uint64_t count;
	const uint64_t *times;	 /* of each sample, ns since 1970; NULL unless all of them are known */
	const uint64_t *mono_ns; /* the same by CLOCK_MONOTONIC */
	bool complete;		 /* the unwind reached the root */
	bool after;		 /* of the second recording, where two are compared */
};

#define OUTPUT_MAX_NODES (1u << 20)
#define OUTPUT_MAX_STRING_BYTES (64u << 20)
#define OUTPUT_MAX_DEPTH 2048	 /* frames of one stack; a deeper one is counted as [other] */
#define OUTPUT_MAX_NAME 4096	 /* bytes of one name; longer ones are cut */
#define OUTPUT_MAX_COLUMNS 1024u /* of time */

int output_profile_new(struct output_profile **ret, const struct output_info *info);
void output_profile_free(struct output_profile *p);
/*
 * Replaces all fields but the maxima, since counts and duration are known only at the end of the recording. 0
 * or -ENOMEM (unchanged).
 */
int output_profile_set_info(struct output_profile *p, const struct output_info *info);
/* Borrowed until the next output_profile_set_info. */
const struct output_info *output_profile_info(const struct output_profile *p);
/* The frequency alone, as of struct output_info. */
void output_profile_set_frequency(struct output_profile *p, uint32_t frequency_hz);
uint32_t output_profile_frequency(const struct output_profile *p);
/*
 * Adds a stack. 0; -ENOSPC (a maximum) or -ENOMEM when it was counted as [other] instead. The samples are in
 * the profile in every case, so a caller that needs only the sum may ignore the error.
 */
int output_profile_add(struct output_profile *p, const struct output_stack *s);
uint64_t output_profile_samples(const struct output_profile *p); /* all that were added */
uint64_t output_profile_timed(const struct output_profile *p);	 /* of these, the ones whose time is known */
uint64_t output_profile_merged(const struct output_profile *p);	 /* the ones that became [other] */

static inline void output_profile_free_p(struct output_profile **p)
{
	output_profile_free(*p);
}
#define _cleanup_output_profile_ __attribute__((cleanup(output_profile_free_p)))

#endif
