// SPDX-License-Identifier: Apache-2.0
/*
 * Files that are not read any more for one purpose or another, because who read them crashed, took too much
 * CPU time or gave an answer that is none. A file is known by device, inode and ctime, so that unmapping it
 * and mapping it again, or restarting its process, gets it no second reader; a ctime cannot be set, and
 * writing to the file changes it.
 *
 * Whoever can write one such file can write thousands. So each is a strike for the tenant that had it mapped
 * first, and jobs for a tenant with strikes have pauses in between, which double with each strike and shrink
 * again with time. Only that tenant's tables and names come later.
 *
 * Bounds: QUARANTINE_MAX files, of which one tenant has QUARANTINE_OF_A_TENANT at most; the oldest go, a
 * tenant's own first. Main loop only.
 */
#ifndef PROFLET_BINARY_QUARANTINE_H
#define PROFLET_BINARY_QUARANTINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "agent/base/map.h"

#define QUARANTINE_MAX 4096u
#define QUARANTINE_OF_A_TENANT 512u

/* What a file is read for. */
enum binary_use {
	BINARY_FOR_TABLE = 1 << 0,
	BINARY_FOR_RULES = 1 << 1,
	BINARY_FOR_NAMES = 1 << 2,
};

/* For the log: "its names". */
const char *binary_use_text(enum binary_use use);

enum quarantine_reason {
	QUARANTINE_CRASHED,	/* its process ended by a signal, or its answer could not be used */
	QUARANTINE_OUT_OF_TIME, /* it took more than PARSER_CPU_MAX_S of CPU time */
	QUARANTINE_REASONS
};

struct quarantine_file {
	dev_t dev;
	uint64_t inode;
	struct timespec ctime;
};

struct quarantine_entry;

struct quarantine {
	struct map files, tenants;
	struct quarantine_entry *oldest, *newest;
};

void quarantine_init(struct quarantine *q);
void quarantine_fini(struct quarantine *q);
/*
 * The file is not to be read for that use. `tenant`: who gets the strike (agent/proc/tenant.h); 0: nobody.
 * `now_ns`: CLOCK_MONOTONIC. Without memory the file is not remembered.
 */
void quarantine_add(struct quarantine *q, const struct quarantine_file *file, enum binary_use use,
		    uint64_t tenant, uint64_t now_ns);
/* The uses (enum binary_use, or-ed) that the file must not be read for; 0: it may be read. */
unsigned quarantine_find(const struct quarantine *q, const struct quarantine_file *file);
/* When the next job for that tenant may begin, CLOCK_MONOTONIC; 0: at any time. */
uint64_t quarantine_held_until_ns(const struct quarantine *q, uint64_t tenant);

#endif
