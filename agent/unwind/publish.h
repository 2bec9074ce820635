// SPDX-License-Identifier: Apache-2.0
/*
 * The publisher is the only writer of what the BPF program reads about processes: mapping lists and the
 * process table. It owns every list that a slot of the process table names, and retires a list when the
 * last slot that named it is changed, whatever becomes of the process or of its mappings. A process whose
 * new list cannot be written keeps the one it has.
 *
 * A list is written completely before slots are set to it, with one store each; then the list that they
 * named before is retired. Forked processes that share their mappings share a list.
 *
 * A published list has a reference to each binary that it names, because the frames of samples may be of
 * any of them.
 *
 * Before the blocks of a table are retired, the publisher takes the table out of every list: it registers
 * for that with unwind_tables_set_withdraw.
 */
#ifndef PROFLET_UNWIND_PUBLISH_H
#define PROFLET_UNWIND_PUBLISH_H

#include <stdbool.h>
#include <stddef.h>
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
	uint64_t no_memory;  /* lists that found the arena full; most get room with the next grace period */
	uint64_t no_room;    /* of these, lists for which eviction could make no room */
	uint64_t cut;	     /* lists with more entries than a block holds: the highest are left out */
	uint64_t withdrawn;  /* entries whose table was taken out of a published list */
};

/* Arena and tables are borrowed and must outlive the publisher. 0 or -ENOMEM. */
int publisher_new(struct publisher **ret, struct arena *arena, struct unwind_tables *tables);
void publisher_free(struct publisher *p);
/*
 * Updates the process's slot: its mappings with the tables that are ready, whether it is selected, whether
 * its samples bring their stack. Cheap when nothing has changed. 0; -ENOSPC (counted) and -ENOMEM leave
 * the slot as it was. After -ENOSPC, when tables could be evicted for the list, that room is reserved for
 * the process, and the call succeeds after the next grace period.
 */
int publisher_put(struct publisher *p, const struct process *process);
/* Empties the process's slot. */
void publisher_remove(struct publisher *p, const struct process *process);
/*
 * Lists are to say how the frames of language runtimes are found: bit n for those of kind n (enum
 * runtime_kind of agent/elf/runtime), and RUNTIME_WANT_TASKS. Call it before anything is published.
 */
void publisher_want_runtimes(struct publisher *p, unsigned kinds);
/* Takes that out of the list that the process has now. */
void publisher_stop_walk(struct publisher *p, uint32_t pid);
/* The binary of the runtime that the process's list says how to walk, by its index; 0: it says none. */
uint32_t publisher_walk(const struct publisher *p, uint32_t pid);
/* How many processes have a list that says how the frames of the runtime in this binary are found. */
size_t publisher_count_walks(const struct publisher *p, uint32_t file);
/*
 * A thread's state was found in that thread-local variable, bytes from the thread pointer (struct
 * runtime_slot); 0: in none. Does nothing if the process's list has another generation by now.
 */
void publisher_set_thread_slot(struct publisher *p, uint32_t pid, uint32_t generation, int32_t thread_slot);
/* True when no published list has exactly these mappings with the tables that are ready. */
bool publisher_outdated(const struct publisher *p, const struct proc_maps *m);
/* The ref of the published list that has, 0 when there is none. Valid until the publisher is called again. */
uint32_t publisher_list(const struct publisher *p, const struct proc_maps *m);
/* The generation of the published list of exactly these mappings, with whatever tables; 0: there is none. */
uint32_t publisher_list_generation(const struct publisher *p, const struct proc_maps *m);
/* The generation of the list that was written last; generations wrap around. */
uint32_t publisher_generation(const struct publisher *p);
void publisher_stats(const struct publisher *p, struct publish_stats *ret);

#endif
