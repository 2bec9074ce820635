// SPDX-License-Identifier: Apache-2.0
/*
 * Complete rules (agent/elf/cfi/frame_rule.h) on demand: what finishing a stack asks for is looked up by
 * worker threads in the files that the cache holds open, and kept in RULES_MAX slots, those unused for
 * longest going first. Main loop only. Rank 2.
 */
#ifndef PROFLET_UNWIND_RULES_H
#define PROFLET_UNWIND_RULES_H

#include <stdint.h>

struct frame_rule;
struct rules;
struct binary_registry;
struct worker;

#define RULES_MAX 256u /* of 1.2 KB */

enum rules_answer {
	RULES_FOUND,
	RULES_NONE,    /* no call-frame information there, or the file is gone or damaged */
	RULES_PENDING, /* ask again after `ready` */
};

struct rules_stats {
	uint64_t found, none; /* looked up, by outcome */
	uint64_t failed;      /* of none: file gone, damaged, no memory */
	uint64_t full;	      /* questions that had to be put off */
};

/* `ready` is called (from worker_collect or rules_ask) when answers came. Everything is borrowed. 0 or
 * -ENOMEM. */
int rules_new(struct rules **ret, struct binary_registry *binaries, struct worker *worker,
	      void (*ready)(void *data), void *data);
/* After worker_free, or when no job is out. */
void rules_free(struct rules *r);
/* The rule of an ELF virtual address of a file; borrowed until rules_ask or the next rules_get. */
enum rules_answer rules_get(struct rules *r, uint32_t file, uint64_t va, const struct frame_rule **ret);
/* Gives what was asked for to the workers. */
void rules_ask(struct rules *r);
/* The index will stand for another file. */
void rules_forget(struct rules *r, uint32_t file);
void rules_stats(const struct rules *r, struct rules_stats *ret);

#endif
