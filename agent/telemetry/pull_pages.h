// SPDX-License-Identifier: Apache-2.0
/*
 * Profiles that a running agent makes on request, at the address of the setting `listen`:
 *
 *	/debug/pprof/profile	gzip'ed pprof
 *	/flamegraph		the page that `proflet record` writes
 *	/top			its table of functions
 *
 * They take the samples of some seconds, which are exported as well. Main loop only.
 */
#ifndef PROFLET_PULL_PAGES_H
#define PROFLET_PULL_PAGES_H

#include <stdint.h>

struct agent;
struct delivery;
struct pull_pages;
struct pull_request;

/* Both are borrowed until pull_pages_free. 0 or -ENOMEM. */
int pull_pages_new(struct pull_pages **ret, struct agent *agent, struct delivery *delivery);
/* NULL is fine. Pulls that have not ended get no answer; the agent ends before. */
void pull_pages_free(struct pull_pages *p);
/* Begins a profile, which is the answer to the request of this number. */
void pull_pages_begin(struct pull_pages *p, uint64_t number, const struct pull_request *request);
/* No answer is wanted; 0: to none of the requests. */
void pull_pages_end(struct pull_pages *p, uint64_t number);

#endif
