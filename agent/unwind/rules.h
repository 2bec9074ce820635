// SPDX-License-Identifier: Apache-2.0
/*
 * A cache of complete unwind rules (agent/elf/cfi/frame_rule.h) for finishing stacks in user space. Worker
 * threads look rules up in the files that the registry of binaries holds open. Main loop only.
 *
 * A walk over a stack requests the rules of all its frames at once. While some are missing, the caller
 * repeats the walk whenever `ready` is called. The cache grows on demand up to a number of bytes, then evicts
 * what was unused for longest. It never evicts a rule of the walk at hand, nor, for RULES_HOLD_NS, one of a
 * walk that will be repeated: two deep stacks cannot evict each other's rules for ever. A walk whose rules
 * find no room gets that answer at once and will not be repeated.
 */
#ifndef PROFLET_UNWIND_RULES_H
#define PROFLET_UNWIND_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/clock.h"

struct binary_registry;
struct frame_rule;
struct rules;
struct worker;

#define RULES_BYTES (4u << 20)		/* some 3,400 rules; the longest stack has 1,024 frames */
#define RULES_HOLD_NS (10 * NS_PER_SEC) /* a sample that waits is tried again within that time */

enum rules_answer {
	RULES_FOUND,
	RULES_NONE,    /* the file has no call-frame information there, or cannot be read */
	RULES_PENDING, /* requested: repeat the walk after `ready` */
	RULES_FULL,    /* no room: this walk cannot be completed */
};

struct rules_stats {
	uint64_t found, none; /* completed requests, by outcome */
	uint64_t failed;      /* of none: file gone or damaged, out of memory, file system does not answer */
	uint64_t refused;     /* walks that found no room */
	size_t bytes;	      /* in use */
};

struct rules_options {
	struct binary_registry *binaries;
	struct worker *worker;
	size_t max_bytes; /* 0: RULES_BYTES */
	/* Called, from worker_collect or rules_walk_end, when answers came. */
	void (*ready)(void *data);
	void *data;
};

/* Everything in `options` is borrowed. 0 or -ENOMEM. */
int rules_new(struct rules **ret, const struct rules_options *options);
/* Call it after worker_free, or when no job is with the workers. */
void rules_free(struct rules *r);

/* Begins a walk over one stack; `now_ns` is CLOCK_MONOTONIC. */
void rules_walk_begin(struct rules *r, uint64_t now_ns);
/* The rule of an ELF virtual address of a file, borrowed until rules_walk_end. */
enum rules_answer rules_get(struct rules *r, uint32_t file, uint64_t va, const struct frame_rule **ret);
/* Ends the walk. `repeat`: it will be repeated; its rules are held, and those missing go to the workers. */
void rules_walk_end(struct rules *r, bool repeat);

/* Drops the rules of the file. Call it before the index is given to another. */
void rules_forget(struct rules *r, uint32_t file);
void rules_stats(const struct rules *r, struct rules_stats *ret);

#endif
