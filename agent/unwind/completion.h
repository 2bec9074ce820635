// SPDX-License-Identifier: Apache-2.0
/*
 * Completes stacks that the BPF program could not unwind to the end, because it lacked a process, a
 * mapping, a table or a rule, or because it used a mapping list that was already outdated
 * (agent/proc/history.h), or rows of code whose memory other code may have got (code_times.h). Most stacks
 * are completed at once. For the others the whole record waits, in bounded memory, until what it needs was
 * published or its deadline has passed; in the latter case it is sent as far as it was unwound. A deadline
 * is put off while what the sample needs is queued or being made: a worker thread that gets no CPU is
 * late, and the table that it builds still comes. Main loop only.
 */
#ifndef PROFLET_UNWIND_COMPLETION_H
#define PROFLET_UNWIND_COMPLETION_H

#include <stddef.h>
#include <stdint.h>

#include "agent/unwind/generated.h"
#include "agent/proc/image.h"
#include "agent/sample/decode.h"
#include "agent/unwind/finish.h"

struct arena;
struct completion;
struct publisher;
struct unwind_tables;
struct worker;

/* The nanoseconds that a sample waits for a table or a rule that nobody makes. */
#define COMPLETION_TABLE_NS 10000000000ull
/* The nanoseconds that a sample waits for a process or a mapping that no event has reported. */
#define COMPLETION_PROCESS_NS 2500000000ull
/* The nanoseconds that a sample waits, at most, for what is being made, opened or read. */
#define COMPLETION_PENDING_NS 300000000000ull

struct completion_options {
	struct arena *arena;
	struct unwind_tables *tables;
	const struct publisher *publisher; /* its lists are used if they are up to date; NULL: none */
	struct worker *worker;		   /* looks up rules; NULL with `tables` NULL */
	uint32_t user_frames;		   /* the most a stack may have */
	size_t max_bytes;		   /* of records that wait */
	uint64_t (*now)(void);		   /* CLOCK_MONOTONIC; NULL: clock_mono_ns */
	/*
	 * A walk has ended at code in no ELF file which is not known yet, or has passed such code: it may
	 * become known. NULL: it does not.
	 */
	void (*generated)(struct process *p, uint64_t address, enum generated_wish wish, void *data);
	/* Whether something of the process is being read: its samples wait. NULL: never */
	bool (*reading)(const struct process *p, void *data);
	/*
	 * Whether the names of what is in the stack are settled: if not, they are after another look at the
	 * code of the process, which was requested. NULL: they are.
	 */
	bool (*named)(const struct sampled_task *task, const struct sample_view *v, void *data);
	/* Takes each sample once, with its final stack; both are borrowed for the call. */
	void (*final)(const struct sampled_task *task, const struct sample_view *v, void *data);
	void *data;
};

struct completion_stats {
	uint64_t completed; /* stacks that reached their root here */
	uint64_t late;	    /* sent incomplete because their deadline had passed */
	uint64_t no_room;   /* sent incomplete because there was no room for all that waited */
	uint64_t tried;	    /* walks of samples that waited */
	uint64_t packed;    /* records compressed, because much of the room was taken */
	/* of the stacks unwound with an outdated list: unwound again with the right one; shortened */
	uint64_t walked_again, cut;
	/* the same of stacks with steps from code that was, or may have been, other code by then */
	uint64_t code_walked_again, code_cut;
	size_t waiting, waiting_bytes;
	struct finisher_stats finisher;
};

/* Everything in `options` is borrowed. 0 or -ENOMEM. */
int completion_new(struct completion **ret, const struct completion_options *options);
/* Call it when no job is with the workers. Samples that still wait are not sent. NULL is fine. */
void completion_free(struct completion *c);
/*
 * Takes a sample: `v` is what `record` decodes to, `task` the thread that was sampled. Calls `final` now, or
 * keeps a copy of the record and references to the process, its image and the binaries of its frames.
 */
void completion_take(struct completion *c, const struct sampled_task *task, const struct sample_view *v,
		     const void *record, size_t len);
/*
 * Tries again to complete samples that wait: those for which what was missing has changed, a bounded number
 * in each call. The caller changes `epoch` whenever mappings or tables were published: while it stays the
 * same, only deadlines are checked.
 */
void completion_retry(struct completion *c, uint64_t epoch);
bool completion_waiting(const struct completion *c); /* whether samples wait */
/* Whether something that samples wait for is on its way. */
bool completion_expects(const struct completion *c);
/* Tries to complete all samples once more, and sends them, complete or not. */
void completion_finish(struct completion *c);
/* Drops what is known of the file, because its index is about to be given to another. */
void completion_forget(struct completion *c, uint32_t file);
void completion_stats(const struct completion *c, struct completion_stats *ret);

#endif
