// SPDX-License-Identifier: Apache-2.0
/*
 * Continues in user space an unwind that the BPF program had to end. If it lacked a process, a mapping or a
 * table, this runs the same code (bpf/unwind.h) over the same arena. If it met a rule that a table cannot
 * hold, this looks up the complete rules, beginning with the last frame whose registers are all known. The
 * only memory of the process that it reads is the stack saved in the record.
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
	struct binary_registry *binaries; /* whose files have the complete rules; NULL: use none */
	struct worker *worker;
	uint32_t user_frames; /* the most a stack may have */
	/* Called within worker_collect or finisher_walk after rules were looked up: walks may now end. */
	void (*ready)(void *data);
	void *data;
};

struct finisher_stats {
	uint64_t followed;	/* frames passed by complete rules where the table's rule was unsupported */
	uint64_t not_followed;	/* stacks that end there: no rule, register unknown, memory not saved */
	uint64_t disagreed;	/* of these, because the complete rules lead elsewhere than the table's */
	uint64_t rules;		/* complete rules found */
	uint64_t no_rules;	/* addresses without one */
	uint64_t rules_failed;	/* rules not found because the file could not be read */
	uint64_t rules_refused; /* walks that ended because the cache of rules had no room */
	uint64_t rules_costly;	/* walks that ended because to follow their rules had taken too long */
};

/* Everything in `options` is borrowed. 0 or -ENOMEM. */
int finisher_new(struct finisher **ret, const struct finisher_options *options);
/* Call it when no job is with the workers. */
void finisher_free(struct finisher *f);
/*
 * Continues the walk from v->saved (not NULL) with the mapping list `list` (a ref, not 0). *ret is the
 * sample with the frames found so far, without its saved stack; the frames are borrowed until the next
 * call. True when that is final; false when a mapping, a table or a rule that may still come would take it
 * further.
 */
bool finisher_walk(struct finisher *f, const struct sample_view *v, uint32_t list, struct sample_view *ret);
/* How many of the sample's user frames the walk from its saved stack keeps: those before the one it is of. */
uint16_t finisher_kept(const struct sample_view *v);
/* The process address of the frame at which the last walk ended. */
uint64_t finisher_address(const struct finisher *f);
/* Drops the rules of the file, because its index is about to be given to another. */
void finisher_forget(struct finisher *f, uint32_t file);
void finisher_stats(const struct finisher *f, struct finisher_stats *ret);

/*
 * Makes a list of mappings that are not published, for finisher_walk over the same sample. It is valid
 * until the next call. 0: there are no mappings, or no memory.
 */
uint32_t finisher_list(struct finisher *f, const struct sample_view *v, const struct proc_maps *maps,
		       const struct unwind_tables *tables);
/* The rule of the row that a published list has for a process address. False: it has none. */
bool finisher_rule(struct finisher *f, uint32_t list, uint64_t address, struct unwind_rule *ret);
/*
 * Cuts a stack that was unwound with outdated mappings: *ret is the sample with its first n user frames and,
 * unless it is 0, the frame `next`, without its saved stack. Its frames are borrowed until the next call.
 */
void finisher_cut(struct finisher *f, const struct sample_view *v, uint16_t n, uint64_t next,
		  struct sample_view *ret);

#endif
