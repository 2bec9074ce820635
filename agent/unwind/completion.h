// SPDX-License-Identifier: Apache-2.0
/*
 * Completes stacks that the BPF program could not walk to the end. The program lacked a process, a mapping, a
 * table or a rule; or it used a mapping list that was already outdated (agent/proc/history.h). Most stacks
 * are completed at once. The others wait, whole records in bounded memory, until what they need was published
 * or their deadline has passed; then they go out as far as they were walked. Main loop only.
 */
#ifndef PROFLET_UNWIND_COMPLETION_H
#define PROFLET_UNWIND_COMPLETION_H

#include <stddef.h>
#include <stdint.h>

#include "agent/proc/sampled_task.h"
#include "agent/sample/decode.h"
#include "agent/unwind/finish.h"

struct arena;
struct completion;
struct publisher;
struct unwind_tables;
struct worker;

/* How long a sample waits, in nanoseconds since it arrived or was taken. */
#define COMPLETION_TABLE_NS 10000000000ull /* for a table or a rule: a worker thread makes it */
#define COMPLETION_PROCESS_NS \
	2500000000ull /* for a process or a mapping: events bring it, its file is opened */

struct completion_options {
	struct arena *arena;
	struct unwind_tables *tables;
	const struct publisher *publisher; /* its lists are used where they are up to date; NULL: none */
	struct worker *worker;		   /* looks up rules; NULL with `tables` NULL */
	uint32_t user_frames;		   /* the most a stack may have */
	size_t max_bytes;		   /* of records that wait */
	uint64_t (*now)(void);		   /* CLOCK_MONOTONIC; NULL: clock_mono_ns */
	/* Takes each sample once, with its final stack; both are borrowed for the call. */
	void (*final)(const struct sampled_task *task, const struct sample_view *v, void *data);
	void *data;
};

struct completion_stats {
	uint64_t completed; /* stacks that reached their root here */
	uint64_t late;	    /* sent as they were because what they needed did not come in time */
	uint64_t no_room;   /* because too many waited already */
	uint64_t walked_again,
		cut; /* of those with an outdated list: walked again with the right one; shortened */
	size_t waiting, waiting_bytes;
	struct finisher_stats finisher;
};

/* Everything in `options` is borrowed. 0 or -ENOMEM. */
int completion_new(struct completion **ret, const struct completion_options *options);
/* When no job is with the workers. Samples that still wait are not sent. NULL is fine. */
void completion_free(struct completion *c);
/*
 * Takes a sample: what `record` decodes to, and whose it is. Calls `final` now, or keeps a copy of the record
 * and references on the process and its image.
 */
void completion_take(struct completion *c, const struct sampled_task *task, const struct sample_view *v,
		     const void *record, size_t len);
/*
 * Tries the samples that wait again. `epoch` is a number that its owner changes whenever mappings or tables
 * were published: while it stays the same only deadlines are looked at.
 */
void completion_retry(struct completion *c, uint64_t epoch);
/* Tries all once more, and sends them whatever comes of it. */
void completion_finish(struct completion *c);
/* The file index will stand for another file. */
void completion_forget(struct completion *c, uint32_t file);
void completion_stats(const struct completion *c, struct completion_stats *ret);

#endif
