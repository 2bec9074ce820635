// SPDX-License-Identifier: Apache-2.0
/*
 * Process events → process table: fork, execve, new names, mappings, exit. The process that an event is about
 * may be gone a millisecond later, so what is needed of it is read now. Main loop only.
 */
#ifndef PROFLET_TRACK_PROCESS_EVENTS_H
#define PROFLET_TRACK_PROCESS_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/track/gaps.h"
#include "agent/track/track_host.h"

struct openings;
struct proc_table;
struct process_events;
struct process_names;
struct process_reader;
struct publication;
struct remaps;

struct process_events_options {
	const struct track_host *host;
	struct proc_table *processes;
	struct process_reader *reader;
	struct process_names *names;
	struct openings *openings;
	struct remaps *remaps;
	struct publication *publication;
	struct gaps *gaps;
};

struct process_events_stats {
	uint64_t events, execs, forks, exits;
	uint64_t mappings_full; /* mappings left out: their process has PROC_MAPS_MAX */
	uint64_t mappings_left; /* mappings not applied one by one: their process makes too many a second */
};

/* Everything in `options` is borrowed. 0 or -ENOMEM. */
int process_events_new(struct process_events **ret, const struct process_events_options *options);
void process_events_free(struct process_events *e); /* NULL is fine */
/*
 * Applies the events that wait. Returns 1 if any of them changed something, else 0; -errno when they could
 * not be read: they wait for the next call.
 */
int process_events_drain(struct process_events *e);
/* Call now and then. */
void process_events_sweep(struct process_events *e, uint64_t now_ns);
void process_events_stats(const struct process_events *e, struct process_events_stats *ret);

#endif
