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
typedef void (*proc_history_fn)(const struct proc_maps *m, void *data);
int proc_history_add(struct process *p, uint64_t until_ns, uint32_t generation, proc_history_fn fn,
		     void *data);
/* What held at that time; p->maps where nothing else is known; NULL when it is forgotten. Borrowed. */
const struct proc_maps *proc_history_at(const struct process *p, uint64_t time_ns);
/*
 * The process begins with its maps, which may be published as those of others. Lists up to `generation` are
 * not its own otherwise: its pid was another's before, and stood for that one's list until we heard of it.
 */
void proc_history_begin(struct process *p, uint32_t generation);
/*
 * Whether a walk at that time, with the list of that generation (not 0), used an outdated one; *ret is the
 * one it used, NULL when that is forgotten or another process's. Borrowed.
 */
bool proc_history_outdated(const struct process *p, uint64_t time_ns, uint32_t generation,
			   const struct proc_maps **ret);
void proc_history_each(const struct process *p, void (*fn)(const struct proc_maps *m, void *data),
		       void *data);
/* Forgets versions that ended before `time_ns`: no sample of that time comes any more. */
void proc_history_forget(struct process *p, uint64_t time_ns);
void proc_history_fini(struct process *p);

#endif
