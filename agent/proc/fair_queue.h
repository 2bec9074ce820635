// SPDX-License-Identifier: Apache-2.0
/*
 * Jobs that wait for a worker, in an order that is fair among tenants. Urgent jobs go first: of them, those
 * of the tenant whose jobs have taken the least time lately, and of one tenant the one that has waited
 * longest; a tenant has few with the workers at a time, and may be held back for a while. Of the others,
 * only one is with the workers, and the one that has waited longest is next. Main loop only. Rank 1; may
 * include base.
 */
#ifndef PROFLET_PROC_FAIR_QUEUE_H
#define PROFLET_PROC_FAIR_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/map.h"

struct fair_tenant;

/* Embedded in what is to be done. Zeroed: it does not wait. */
struct fair_wait {
	struct fair_wait *earlier, *later;
	struct fair_tenant *tenant; /* of an urgent one, until its job has ended; NULL: an ordinary one */
	uint64_t owner;		    /* the number of its tenant */
	uint64_t begun_ns;
};

/* In the order of arrival. */
struct fair_list {
	struct fair_wait *first, *last;
};

struct fair_queue {
	struct map tenants;
	struct fair_list ordinary;
	unsigned max_of_a_tenant; /* urgent jobs with the workers at a time */
	/* When the next job of a tenant may begin, CLOCK_MONOTONIC. NULL: at any time. */
	uint64_t (*held_until_ns)(uint64_t tenant, const void *data);
	const void *held_data;
	size_t n_waiting;
	size_t n_ordinary; /* ordinary ones with the workers */
};

void fair_queue_init(struct fair_queue *q, unsigned max_of_a_tenant);
/* Registers the function that holds tenants back (above). `data` is borrowed. */
void fair_queue_on_held(struct fair_queue *q, uint64_t (*held_until_ns)(uint64_t tenant, const void *data),
			const void *data);
/* What still waits is forgotten. */
void fair_queue_fini(struct fair_queue *q);
/* `urgent`: a sample waits for it. `w` is borrowed until it is removed, or its job ends. */
void fair_queue_add(struct fair_queue *q, struct fair_wait *w, uint64_t tenant, bool urgent);
void fair_queue_remove(struct fair_queue *q, struct fair_wait *w); /* it waits */
/* The one to do next; it still waits. NULL: none now. `now_ns`: CLOCK_MONOTONIC. */
struct fair_wait *fair_queue_next(struct fair_queue *q, uint64_t now_ns);
/* It was removed, and is with the workers from now on. */
void fair_queue_begin(struct fair_queue *q, struct fair_wait *w, uint64_t now_ns);
/* It is no longer with the workers, or is stuck there. Once for each begin. */
void fair_queue_end(struct fair_queue *q, struct fair_wait *w, uint64_t now_ns);

#endif
