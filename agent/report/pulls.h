// SPDX-License-Identifier: Apache-2.0
/*
 * Profiles that somebody requests while samples are exported (pulls): each takes the samples of a time and of
 * the processes that it names, from the windows that are sent. While there is none, that costs a look at an
 * empty list for each entry of a window, and nothing for a sample. Main loop only.
 */
#ifndef PROFLET_REPORT_PULLS_H
#define PROFLET_REPORT_PULLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/output/profile.h"

struct pulls;

/* All that is given must apply. NULL and 0: not given. */
struct pull_selector {
	uint32_t pid;
	const char *container; /* its name, or 12 to 64 digits of its id */
	const char *pod, *namespace;
};

struct pull_options {
	uint64_t number; /* not 0; no other pull has it */
	struct pull_selector selector;
	uint64_t from_ns, until_ns; /* CLOCK_MONOTONIC */
	size_t max_bytes;	    /* of memory for its profile, roughly */
	/* Called once, unless it is cancelled. */
	void (*done)(uint64_t number, struct output_profile *profile, void *data);
	void *data;
};

/* Whom an entry of a window belongs to. */
struct pull_identity {
	const char *container_id;		      /* 64 hex digits; NULL: none */
	const char *container_name, *pod, *namespace; /* NULL: not known */
	uint32_t pid;
};

/* `max`: pulls at once. 0 or -ENOMEM. */
int pulls_new(struct pulls **ret, unsigned max);
/* None is called back. NULL is fine. */
void pulls_free(struct pulls *p);
/* The selector's texts are copied. 0; -EBUSY: there are as many as may be; -ENOMEM. */
int pulls_begin(struct pulls *p, const struct pull_options *options);
/* `done` will not be called. 0: for none of them. */
void pulls_cancel(struct pulls *p, uint64_t number);
bool pulls_any(const struct pulls *p);
/* The earliest time at which a pull is over; 0: there is none. */
uint64_t pulls_next_ns(const struct pulls *p);
/*
 * How many samples of an entry, that were taken at these times, each pull takes; then pulls_add adds its
 * stack to them. False: none takes any, and no stack is needed.
 */
bool pulls_select(struct pulls *p, const struct pull_identity *who, const uint64_t *times_ns, size_t n);
/* The count of `stack` is not used. `frequency_hz`: at which its samples were taken. */
void pulls_add(struct pulls *p, const struct output_stack *stack, uint32_t frequency_hz);
/* All samples that were taken until then were added. Ends the pulls that are over. */
void pulls_sent(struct pulls *p, uint64_t until_ns);
/* Pure. */
bool pull_selects(const struct pull_selector *s, const struct pull_identity *who);

#endif
