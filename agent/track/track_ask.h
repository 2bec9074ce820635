// SPDX-License-Identifier: Apache-2.0
/*
 * Questions about other processes that may not be answered: their files may lie on a file system whose server
 * is dead, their memory may be backed by one, and whoever asks waits for it. So the main loop does not ask;
 * a thread of a pool does, and the main loop waits for a few milliseconds at most, and for a small share of
 * its time in all. What comes later is taken late; what does not come within the bound is given up, and
 * neither that process nor that file system is asked again until the thread is back. Rank 3.
 */
#ifndef PROFLET_TRACK_ASK_H
#define PROFLET_TRACK_ASK_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/clock.h"
#include "agent/base/worker.h"
#include "agent/proc/open.h"

struct track;

#define ASK_WAIT_NS (2 * NS_PER_MS)   /* for an answer; longer than any takes on a machine that is well */
#define ASK_FREE_NS (NS_PER_MS / 10)  /* of it, are not counted */
#define ASK_SHARE 20u		      /* the rest may be 1/20 of all time, */
#define ASK_SAVED_NS (50 * NS_PER_MS) /* saved up to so much */
#define ASK_BOUND_NS (2 * NS_PER_SEC) /* then it is given up */
#define ASK_QUEUED_NS \
	(30 * NS_PER_SEC)  /* the same before a thread has come to it: all are stuck, or the CPUs busy */
#define ASK_REFUSED_MAX 8u /* file systems that are avoided */
#define ASK_OPENERS 2u
#define ASK_QUEUE_MAX 16384u
#define ASK_START_NS \
	(1 * NS_PER_SEC) /* may be waited in all at the start, when everything is asked at once */

/* Embedded first in what a question needs and its answer. */
struct ask {
	struct worker_job job;
	const struct ask_kind *kind;
	struct track *track; /* the main loop's */
	struct ask *next;    /* of those that are late */
	uint32_t pid;
	int proc_fd;
	uint64_t asked_ns;
	uint64_t began_ns; /* when a thread came to it; 0 before */
	uint64_t cpu_ns;   /* that the thread has used for it */
	bool given_up;
	bool of_rescan; /* which takes no more than a share of the time, with it */
	struct proc_open_watch watch;
	uint64_t refused[ASK_REFUSED_MAX];
};

struct ask_kind {
	const char *what;	    /* it does, for the log */
	void (*run)(struct ask *a); /* on a thread; touches nothing but the question */
	bool (*again)(struct track *t,
		      struct ask *a);		      /* the answer is not complete: once more. NULL: it is */
	void (*late)(struct track *t, struct ask *a); /* it has come, after ASK_LATER. NULL: forgotten */
	void (*give_up)(struct track *t, struct ask *a); /* it may never come; `late` is not called. NULL */
	void (*free)(struct ask *a);
};

enum ask_answer {
	ASK_HERE,  /* the question is the caller's again, with its answer */
	ASK_LATER, /* `late` or `give_up` will be called, then `free` */
	ASK_NEVER, /* not asked; the question is the caller's */
};

/* `a` is zeroed, in memory of its own. */
enum ask_answer track_ask(struct track *t, struct ask *a, const struct ask_kind *kind, uint32_t pid);

/*
 * The same in two halves, for a question of a kind that needs no `again`: it is answered beside what the main
 * loop does meanwhile, behind what that waits for. False: not asked; the question is the caller's. After true
 * track_ask_take, before the workers' answers are collected.
 */
bool track_ask_ahead(struct track *t, struct ask *a, const struct ask_kind *kind, uint32_t pid);
enum ask_answer track_ask_take(struct track *t, struct ask *a); /* HERE or LATER */

struct ask_stats {
	uint64_t asked, late, given_up, refused;
	uint64_t waited_ns, waited_max_ns; /* by the main loop */
	unsigned pending;		   /* late, and not given up */
};

#endif
