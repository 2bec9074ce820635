// SPDX-License-Identifier: Apache-2.0
/*
 * The builds of tables that wait for a worker, in a fair order. Those that a sample waits for go first: of
 * them, those of the tenant whose builds have taken the least time lately, and of one tenant the one that has
 * waited longest; a tenant has few with the workers at a time. Of the others, only one is with the workers,
 * and the one that has waited longest is next. Used within agent/unwind; main loop only.
 */
#ifndef PROFLET_UNWIND_BUILD_QUEUE_H
#define PROFLET_UNWIND_BUILD_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/map.h"

/* Builds of one tenant that are with the workers at a time. */
#define BUILDS_OF_A_TENANT 4u

struct build_tenant;

/* Embedded in what is to be built. Zeroed: it does not wait. */
struct build_wait {
	struct build_wait *earlier, *later;
	struct build_tenant *tenant; /* of an urgent one, until its build has ended; NULL: an ordinary one */
	uint64_t begun_ns;
};

/* In the order of arrival. */
struct build_list {
	struct build_wait *first, *last;
};

struct build_queue {
	struct map tenants;
	struct build_list ordinary;
	size_t n_waiting;
	size_t n_ordinary; /* ordinary ones with the workers */
};

void build_queue_init(struct build_queue *q);
void build_queue_fini(struct build_queue *q);
/* `urgent`: a sample waits for it. `w` is borrowed until it is removed, or its build ends. */
void build_queue_add(struct build_queue *q, struct build_wait *w, uint64_t tenant, bool urgent);
void build_queue_remove(struct build_queue *q, struct build_wait *w); /* it waits */
/* The one to build next; it still waits. NULL: none now. `now_ns`: CLOCK_MONOTONIC. */
struct build_wait *build_queue_next(struct build_queue *q, uint64_t now_ns);
/* It was removed, and is with the workers from now on. */
void build_queue_begin(struct build_queue *q, struct build_wait *w, uint64_t now_ns);
/* It is no longer with the workers, or is stuck there. Once for each begin. */
void build_queue_end(struct build_queue *q, struct build_wait *w, uint64_t now_ns);

#endif
