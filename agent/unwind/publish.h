// SPDX-License-Identifier: Apache-2.0
/*
 * The only writer of what the BPF program reads about processes: mapping lists and the process table. Rank 2.
 *
 * A list is written completely, then the process's slot is set to it with one store; the list before it is
 * retired.
 */
#ifndef PROFLET_UNWIND_PUBLISH_H
#define PROFLET_UNWIND_PUBLISH_H

#include <stdbool.h>
#include <stdint.h>

struct arena;
struct process;
struct proc_maps;
struct publisher;
struct unwind_tables;

struct publish_stats {
	uint64_t lists;	     /* written */
	uint64_t list_bytes; /* in the arena now */
	uint64_t processes;  /* in the process table now */
	uint64_t table_full; /* processes that found no slot: their samples end "no process" */
	uint64_t no_memory;  /* lists that found the arena full */
	uint64_t cut;	     /* lists with more entries than a block holds: the highest addresses left out */
};

/* arena and tables are borrowed. */
int publisher_new(struct publisher **ret, struct arena *arena, struct unwind_tables *tables);
void publisher_free(struct publisher *p);
/* Whether tables of the mappings' files came or went since their list was written: then it is to be written
 * again (maps->dirty). */
bool publisher_outdated(const struct publisher *p, const struct proc_maps *m);
/*
 * Writes the process's mapping list if it changed since (maps->dirty) and its slot in the process table. 0,
 * -ENOSPC (counted; the process keeps its list, less the tables that went), -ENOMEM.
 */
int publisher_put(struct publisher *p, struct process *process);
/* Of the list that was written last; generations wrap around. */
uint32_t publisher_generation(const struct publisher *p);
/* Takes the process out of the table. */
void publisher_remove(struct publisher *p, struct process *process);
void publisher_stats(const struct publisher *p, struct publish_stats *ret);

#endif
