// SPDX-License-Identifier: Apache-2.0
/*
 * The only writer of what the BPF program reads about processes: mapping lists and the process table. It owns
 * every list that a slot of the process table names, and frees it when no slot names it any more, whatever
 * becomes of the process or of its mappings. A process whose list cannot be written keeps the one it has.
 *
 * A list is written completely, then the slots are set to it, with one store each; the list before it is
 * retired. Forked processes that share their mappings share the list.
 *
 * A published list holds the binaries that it names: frames of a walk with it do, too.
 *
 * The publisher takes a table out of every list before its owner retires its blocks
 * (unwind_tables_set_withdraw).
 */
#ifndef PROFLET_UNWIND_PUBLISH_H
#define PROFLET_UNWIND_PUBLISH_H

#include <stdbool.h>
#include <stdint.h>

struct arena;
struct proc_maps;
struct process;
struct publisher;
struct unwind_tables;

struct publish_stats {
	uint64_t lists;	     /* written */
	uint64_t list_bytes; /* in the arena now */
	uint64_t processes;  /* in the process table now */
	uint64_t table_full; /* processes that found no slot: their samples end "no process" */
	uint64_t no_memory;  /* lists that found the arena full; most of them get their room a little later */
	uint64_t no_room;    /* of these, lists that no eviction could make room for */
	uint64_t cut;	     /* lists with more entries than a block holds: the highest addresses left out */
	uint64_t withdrawn;  /* entries whose table was taken out of a published list */
};

/* arena and tables are borrowed, and outlive it; tables that go are reported to it. 0 or -ENOMEM. */
int publisher_new(struct publisher **ret, struct arena *arena, struct unwind_tables *tables);
void publisher_free(struct publisher *p);
/*
 * Makes the process's slot say what the process is now: its mappings with the tables that are ready, whether
 * it is selected, whether its samples bring their stack. Cheap when the slot does already. 0, -ENOSPC
 * (counted), -ENOMEM: the slot stays as it was. Where tables were evicted to make room, that room is kept for
 * the process: the call succeeds after the next grace period.
 */
int publisher_put(struct publisher *p, const struct process *process);
/* Empties the process's slot. */
void publisher_remove(struct publisher *p, const struct process *process);
/* Whether no published list says just what these mappings are, with the tables that are ready. */
bool publisher_outdated(const struct publisher *p, const struct proc_maps *m);
/* The ref of the published list that does, 0 when there is none. Valid until the publisher's next change. */
uint32_t publisher_list(const struct publisher *p, const struct proc_maps *m);
/* The generation of the published list of just these mappings, whatever its tables; 0 when there is none. */
uint32_t publisher_list_generation(const struct publisher *p, const struct proc_maps *m);
/* Of the list that was written last; generations wrap around. */
uint32_t publisher_generation(const struct publisher *p);
void publisher_stats(const struct publisher *p, struct publish_stats *ret);

#endif
