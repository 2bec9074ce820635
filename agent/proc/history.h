// SPDX-License-Identifier: Apache-2.0
/*
 * The mappings that a process had. The agent hears of a change after it has happened: samples taken before it
 * was published were walked with the old list, and may have used what was not there any more. Who knows when
 * each list held can tell these samples from the others. Rank 1; owned by the process, bounded.
 */
#ifndef PROFLET_PROC_HISTORY_H
#define PROFLET_PROC_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#define PROC_HISTORY_MAX 512u	    /* versions of a process's mappings */
#define PROC_HISTORY_MAPPINGS 8192u /* in all of them; the newest is kept whatever it has */

struct proc_maps;
struct process;

/*
 * p->maps held until `until_ns`; what is published with a generation up to `generation` does not have the
 * change that follows. At the maximum the oldest version is forgotten. The version shares p->maps:
 * proc_maps_own before the change. 0, -ENOMEM (what was before `until_ns` is not known any more).
 */
int proc_history_add(struct process *p, uint64_t until_ns, uint32_t generation);
/* What held at that time; p->maps where nothing else is known; NULL when it is forgotten. Borrowed. */
const struct proc_maps *proc_history_at(const struct process *p, uint64_t time_ns);
/*
 * The process begins. Published lists up to `generation` are not of its mappings: its pid was another
 * process's before, and named that one's list until we heard of its end. The exception is the list with
 * generation `inherited`, which has just the mappings that a fork shares with its parent; 0: there is none.
 */
void proc_history_begin(struct process *p, uint32_t generation, uint32_t inherited);
/*
 * Whether a walk at that time, with the list of that generation (not 0), used an outdated one; *ret is the
 * one it used, NULL when that is forgotten or another process's. Borrowed.
 */
bool proc_history_outdated(const struct process *p, uint64_t time_ns, uint32_t generation,
			   const struct proc_maps **ret);
void proc_history_each(const struct process *p, void (*fn)(const struct proc_maps *m, void *data),
		       void *data);
/* proc_maps_replace_file in each of them. */
void proc_history_replace_file(struct process *p, uint32_t from, uint32_t to);
/* Forgets versions that ended before `time_ns`: no sample of that time comes any more. */
void proc_history_forget(struct process *p, uint64_t time_ns);
void proc_history_fini(struct process *p);

#endif
