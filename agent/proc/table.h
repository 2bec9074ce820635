// SPDX-License-Identifier: Apache-2.0
/*
 * The known processes, found by pid and time. A process that ended stays findable until its samples have been
 * drained, up to PROC_ENDED_MAX of them. The table owns its processes.
 */
#ifndef PROFLET_PROC_TABLE_H
#define PROFLET_PROC_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/proc/image.h"
#include "agent/proc/mapping.h"
#include "agent/proc/process.h"

#define PROC_ENDED_MAX 16384u /* processes that are over; the one that ended first is forgotten */

struct proc_table;

/* `files` counts the mappings of files, and outlives the processes; NULL: nobody does. 0 or -ENOMEM. */
int proc_table_new(struct proc_table **ret, size_t max_processes, const struct proc_files *files);
void proc_table_free(struct proc_table *t);
/* Borrowed until the next change of the table; NULL when unknown. */
struct process *proc_table_get(const struct proc_table *t, uint32_t pid);
/* Who was `pid` at that time: the living one, or one that ended. NULL when unknown. Borrowed. */
struct process *proc_table_at(const struct proc_table *t, uint32_t pid, uint64_t time_ns);
/*
 * Adds a process without names and mappings; a living one of the same pid is ended. It starts no earlier than
 * the one before it ended. 0, -ENOMEM, -ENOSPC (counted).
 */
int proc_table_add(struct proc_table *t, uint32_t pid, uint64_t start_ns, struct process **ret);
/* Adds one that was over, before those of that pid that are known. 0 or -ENOMEM. */
int proc_table_add_ended(struct proc_table *t, uint32_t pid, uint64_t end_ns, struct process **ret);
/* Takes it out of the living. It stays findable by time until proc_table_reap. */
void proc_table_end(struct proc_table *t, struct process *p, uint64_t time_ns);
/* Forgets those that ended before `time_ns`. */
void proc_table_reap(struct proc_table *t, uint64_t time_ns);
void proc_table_each(const struct proc_table *t, void (*fn)(struct process *p, void *data), void *data);
size_t proc_table_len(const struct proc_table *t);
uint64_t proc_table_full(const struct proc_table *t); /* processes refused at the maximum */

#endif
