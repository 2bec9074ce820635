// SPDX-License-Identifier: Apache-2.0
/*
 * The mappings that a process had. The agent learns of a change after it has happened: the BPF program walked
 * samples between the change and its publication with the old list, and may have used mappings that no longer
 * existed. The times at which each list was valid identify these samples. Rank 1; owned by the
 * process, bounded.
 */
#ifndef PROFLET_PROC_HISTORY_H
#define PROFLET_PROC_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#define PROC_HISTORY_MAX 512u	    /* versions of the mappings of a process */
#define PROC_HISTORY_MAPPINGS 8192u /* in all versions, shared ones once; the newest is never forgotten */

struct proc_maps;
struct process;

/*
 * Records that p->maps was valid until `until_ns`, and that lists published with a generation up to
 * `generation` lack the change that follows. At the maximum the oldest version is forgotten. The version
 * shares p->maps, so call proc_maps_own before the change. 0; -ENOMEM: the mappings before `until_ns` are
 * unknown from now on.
 */
int proc_history_add(struct process *p, uint64_t until_ns, uint32_t generation);
/*
 * The mappings at that time: p->maps if no other version is known for it; NULL if that version was
 * forgotten. Borrowed.
 */
const struct proc_maps *proc_history_at(const struct process *p, uint64_t time_ns);
/*
 * Records that the process begins. Published lists up to `generation` are not of its mappings: another
 * process had its pid before, and the pid's list was that process's until we learned of its end. The
 * exception is the list with generation `inherited`, which has exactly the mappings that a forked process
 * shares with its parent; 0: there is none.
 */
void proc_history_begin(struct process *p, uint32_t generation, uint32_t inherited);
/*
 * Whether a walk at that time, with the list of that generation (not 0), used an outdated list. *ret is the
 * mappings it used; NULL: they were forgotten, or another process's. Borrowed.
 */
bool proc_history_outdated(const struct process *p, uint64_t time_ns, uint32_t generation,
			   const struct proc_maps **ret);
void proc_history_each(const struct process *p, void (*fn)(const struct proc_maps *m, void *data),
		       void *data);
/* Calls proc_maps_opened for each version. */
void proc_history_opened(struct process *p, uint32_t from, uint32_t to);
/* Calls proc_maps_set_code for each version. */
void proc_history_set_code(struct process *p, uint32_t code);
/* Forgets versions that ended before `time_ns`, because no sample of that time can follow. */
void proc_history_forget(struct process *p, uint64_t time_ns);
void proc_history_fini(struct process *p);

#endif
