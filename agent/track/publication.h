// SPDX-License-Identifier: Apache-2.0
/*
 * Which processes are published to the BPF program, and when. Changes are collected; publication_run writes
 * each changed process once. Keeps what is needed to judge samples that were walked before a change was
 * published (agent/proc/history.h), and waits for grace periods, after which the arena reuses memory that the
 * BPF program may have been reading. Main loop only.
 */
#ifndef PROFLET_TRACK_PUBLICATION_H
#define PROFLET_TRACK_PUBLICATION_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/track/gaps.h"
#include "agent/track/select.h"
#include "agent/track/track_host.h"

struct arena;
struct proc_table;
struct process;
struct publication;
struct publisher;
struct unwind_tables;

struct publication_options {
	const struct track_host *host;
	struct proc_table *processes;
	struct arena *arena;
	struct unwind_tables *tables;
	struct publisher *publisher;
	struct gaps *gaps;
	/* Whether a process is to be sampled. NULL: every one. */
	enum select_answer (*select)(const struct process *p, void *data);
	void *select_data;
};

/* Everything in `options` is borrowed. 0 or -ENOMEM. */
int publication_new(struct publication **ret, const struct publication_options *options);
/* After the threads of host->workers have ended. NULL is fine. */
void publication_free(struct publication *p);

/* The process has changed: it is published at the next run. */
void publication_mark(struct publication *p, uint32_t pid);
/* Unwind tables were added or evicted: the next run checks every process. */
void publication_mark_all(struct publication *p);
/* Publishes every changed process, except those that found no room lately or change too often. */
void publication_run(struct publication *p);
/* Lets a grace period begin if memory waits for one. */
void publication_grace(struct publication *p);
/* Changes whenever samples that wait for mappings or tables should be tried again. */
uint64_t publication_epoch(const struct publication *p);
/* The binary of a mapping became known: the process is published if its list does not say so. */
void publication_resolved(struct publication *p, const struct process *process);
/* Changes the epoch for something that is not published: a mapping of an ended process became known. */
void publication_changed(struct publication *p);

/*
 * Decides whether the process is sampled; its published list carries the flag. `inherited`: the answer for a
 * selection that goes from parents to children.
 */
void publication_select(struct publication *p, struct process *process, bool inherited);

/* --- what happens to a process, at a time of CLOCK_MONOTONIC */

/* The process begins. Until now its pid may have named the list of another one. */
void publication_begin(struct publication *p, struct process *process);
/* `child`, new, shares the mappings of `parent`. */
void publication_forked(struct publication *p, struct process *child, struct process *parent,
			uint64_t time_ns);
/* execve has replaced all of its mappings; it has none now. */
void publication_exec(struct publication *p, struct process *process, uint64_t time_ns);
/* Its mappings are about to change: samples up to then were taken with those that it has now. */
void publication_remember(struct publication *p, struct process *process, uint64_t until_ns);
/* The same, where a mapping replaces another: samples are sent with their saved stack for a while. */
void publication_replacing(struct publication *p, struct process *process, uint64_t time_ns);
/* It has ended: removes it from what the BPF program reads, and marks it as ended in the process table. */
void publication_end(struct publication *p, struct process *process, uint64_t time_ns);
/* Call now and then: forgets old mappings, and stops sending saved stacks when their time is over. */
void publication_tend(struct publication *p, struct process *process, uint64_t now_ns);
/* Call now and then: forgets which processes had to wait, where the wait is over. */
void publication_forget(struct publication *p);

#endif
