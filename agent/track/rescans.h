// SPDX-License-Identifier: Apache-2.0
/*
 * All of /proc: at the start, and again after something was lost (gaps.h), for every process, because it is
 * not known which of them were affected. Rescans have a back-off and take at most a small share of the time.
 * Main loop only.
 */
#ifndef PROFLET_TRACK_RESCANS_H
#define PROFLET_TRACK_RESCANS_H

#include <stdint.h>

#include "agent/track/gaps.h"
#include "agent/track/requests.h"

struct proc_table;
struct process_reader;
struct publication;
struct rescans;

struct rescans_options {
	const struct track_host *host;
	struct requests *requests;
	struct proc_table *processes;
	struct process_reader *reader;
	struct publication *publication;
	struct gaps *gaps;
};

/* Everything in `options` is borrowed. 0 or -ENOMEM. */
int rescans_new(struct rescans **ret, const struct rescans_options *options);
/* After the threads that answer requests have ended. NULL is fine. */
void rescans_free(struct rescans *r);
/* Reads every process that is not known. 0 or -errno. */
int rescans_first(struct rescans *r);
/* Reads /proc again if there is a gap and the back-off is over. */
void rescans_run(struct rescans *r);
uint64_t rescans_count(const struct rescans *r);

#endif
