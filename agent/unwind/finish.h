// SPDX-License-Identifier: Apache-2.0
/*
 * Goes on, in user space, with an unwind that the BPF program had to end: for want of a process, mapping or
 * table, by the same bpf/unwind.h over the same arena; at a rule that the table cannot hold, by the complete
 * rules of the frames from the last one on whose registers are all known. Memory is the stack that the record
 * brought. Rank 2.
 */
#ifndef PROFLET_UNWIND_FINISH_H
#define PROFLET_UNWIND_FINISH_H

#include "agent/sample/decode.h"

struct arena;
struct finisher;
struct proc_maps;
struct binary_registry;
struct unwind_tables;
struct worker;

struct finisher_options {
	struct arena *arena;
	struct binary_registry *binaries; /* where complete rules come from; NULL: there are none */
	struct worker *worker;
	uint32_t user_frames; /* the most a stack may have */
	/* Called, from worker_collect or within finisher_walk, when rules came: what was not final may be
	 * now. */
	void (*ready)(void *data);
	void *data;
};

struct finisher_stats {
	uint64_t followed;     /* frames passed by complete rules where the table's rule was unsupported */
	uint64_t not_followed; /* stacks that end there after all: no rule, register unknown, no memory */
	uint64_t disagreed;    /* of these, because the complete rules lead elsewhere than the table's */
	uint64_t rules, no_rules, rules_failed; /* looked up; of addresses that have none; files unreadable */
	uint64_t rules_refused;			/* walks that ended because the cache of rules had no room */
};

/* Everything in `options` is borrowed. 0 or -ENOMEM. */
int finisher_new(struct finisher **ret, const struct finisher_options *options);
/* When no job is with the workers. */
void finisher_free(struct finisher *f);
/*
 * Walks on from v->saved (not NULL) with the mapping list `list` (a ref, not 0). *ret is the sample as it is
 * then, without saved stack; its frames are borrowed until the next call. True when that is final; false when
 * a mapping, a table or a rule that may still come would take it further.
 */
bool finisher_walk(struct finisher *f, const struct sample_view *v, uint32_t list, struct sample_view *ret);
/* The file index will stand for another file. */
void finisher_forget(struct finisher *f, uint32_t file);
void finisher_stats(const struct finisher *f, struct finisher_stats *ret);

/* A list of mappings that are not published, for finisher_walk over the same sample, until the next call. 0:
 * none (no mappings, or no memory). */
uint32_t finisher_list(struct finisher *f, const struct sample_view *v, const struct proc_maps *maps,
		       const struct unwind_tables *tables);
/* *ret is the sample with its first n user frames and, if it is not 0, the frame `next` (outdated mappings),
 * without saved stack; its frames are borrowed until the next call. */
void finisher_cut(struct finisher *f, const struct sample_view *v, uint16_t n, uint64_t next,
		  struct sample_view *ret);

#endif
