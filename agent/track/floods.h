// SPDX-License-Identifier: Apache-2.0
/*
 * Processes that map memory faster than the agent can follow with a small share of a CPU. Only a limited
 * number of such a process's mapping events is applied; instead of applying the others, the agent reads its
 * mappings from /proc, less often the more that costs. Until then the process has the mappings that were
 * known. Main loop only.
 */
#ifndef PROFLET_TRACK_FLOODS_H
#define PROFLET_TRACK_FLOODS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/clock.h"
#include "agent/track/track_host.h"

struct proc_table;
struct process;
struct process_reader;
struct publication;

#define FLOODS_MAX 8u	  /* processes at a time; the events of further ones are all applied */
#define FLOOD_EVENTS 512u /* mappings of a process that are applied */
#define FLOOD_WINDOW_NS (NS_PER_SEC / 10) /* within this time */
#define FLOOD_SHARE 50u /* 1/50 of the time may go into reading the mappings of one process */

struct flood {
	uint32_t pid;	  /* 0: the slot is free */
	uint64_t read_ns; /* when its mappings were read last, or when the flood began */
	uint64_t cost_ns; /* CPU time that this took */
};

/* Embedded. */
struct floods {
	struct host_clock clock;
	struct proc_table *processes;
	struct process_reader *reader;
	struct publication *publication;
	struct flood slots[FLOODS_MAX];
	uint64_t n_left; /* events that were not applied */
};

/* Whether a mapping that was reported at that time is not to be applied. */
bool floods_take(struct floods *f, struct process *p, uint64_t time_ns);
/* A process is forked by one whose mappings wait to be read: so do its own. */
void floods_inherit(struct floods *f, struct process *child);
/* Reads the mappings of processes whose time has come. */
void floods_read(struct floods *f);

#endif
