// SPDX-License-Identifier: Apache-2.0
/* The cache behind resolve.h, for its two files: resolve.c keeps it, resolve_job.c fills it. */
#ifndef PROFLET_SYMBOL_RESOLVE_PRIVATE_H
#define PROFLET_SYMBOL_RESOLVE_PRIVATE_H

#include "agent/base/map.h"
#include "agent/symbol/batch.h"
#include "agent/symbol/resolve.h"

struct symbol_link {
	struct symbol_link *prev, *next; /* circular; NULL while in no list */
};

/* One file of the cache. */
struct symbol_file {
	struct map_node node;
	struct symbol_link by_use, queue;
	uint32_t id;
	uint64_t job_serial; /* of the job under way; 0: none */
	struct symbol_ranges ranges;
	uint64_t *wanted; /* owned; sorted, each once */
	size_t n_wanted, cap_wanted;
};

struct symbol_cache {
	struct map files;
	struct symbol_link by_use, queue; /* heads */
	size_t max_bytes;
	uint64_t last_serial;
	struct symbol_cache_stats stats;
};

void symbol_link_remove(struct symbol_link *l);
void symbol_link_append(struct symbol_link *head, struct symbol_link *l);
struct symbol_file *symbol_cache_file(const struct symbol_cache *c, uint32_t id); /* NULL: not known */
/* Makes `f` the file asked for last. */
void symbol_cache_touch(struct symbol_cache *c, struct symbol_file *f);
/* Takes the file's ranges out of the statistics before they change and adds them again after. */
void symbol_cache_account(struct symbol_cache *c, const struct symbol_file *f, bool add);
/* Gives ranges up until the budget is kept; may free any file that has nothing else. */
void symbol_cache_keep_budget(struct symbol_cache *c);

#endif
