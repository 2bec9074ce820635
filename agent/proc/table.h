// SPDX-License-Identifier: Apache-2.0
/*
 * The known processes, found by pid and time. A process that ended can be found until its samples have been
 * drained; at most PROC_ENDED_MAX of these are remembered. The table owns its processes.
 */
#ifndef PROFLET_PROC_TABLE_H
#define PROFLET_PROC_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/proc/image.h"
#include "agent/proc/mapping.h"
#include "agent/proc/process.h"

#define PROC_ENDED_MAX 16384u /* ended processes; the one that ended first is forgotten first */

struct proc_table;

/* `files` counts the mappings of files, and outlives the processes; NULL: not counted. 0 or -ENOMEM. */
int proc_table_new(struct proc_table **ret, size_t max_processes, const struct proc_files *files);
void proc_table_free(struct proc_table *t);
/* The live process with that pid; NULL: unknown. Borrowed until the table changes. */
struct process *proc_table_get(const struct proc_table *t, uint32_t pid);
/* The process that had the pid at that time, live or ended; NULL: unknown. Borrowed. */
struct process *proc_table_at(const struct proc_table *t, uint32_t pid, uint64_t time_ns);
/*
 * Adds a process without names and mappings, and ends a live one of the same pid. It starts no earlier than
 * the previous one ended. 0, -ENOMEM, -ENOSPC (counted).
 */
int proc_table_add(struct proc_table *t, uint32_t pid, uint64_t start_ns, struct process **ret);
/* Adds a process that has ended, before the known ones of its pid. 0 or -ENOMEM. */
int proc_table_add_ended(struct proc_table *t, uint32_t pid, uint64_t end_ns, struct process **ret);
/* Ends a process. It can be found by time until proc_table_reap. */
void proc_table_end(struct proc_table *t, struct process *p, uint64_t time_ns);
/* Forgets processes that ended before `time_ns`. */
void proc_table_reap(struct proc_table *t, uint64_t time_ns);
void proc_table_each(const struct proc_table *t, void (*fn)(struct process *p, void *data), void *data);
size_t proc_table_len(const struct proc_table *t);
uint64_t proc_table_full(const struct proc_table *t); /* processes refused because of the maximum */

#endif
