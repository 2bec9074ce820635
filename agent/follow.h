// SPDX-License-Identifier: Apache-2.0
/*
 * What changes under the agent: CPUs come and go, the wall clock is set. Looks at the first once a second, is
 * told of the second. Main loop only. Rank 3.
 */
#ifndef PROFLET_FOLLOW_H
#define PROFLET_FOLLOW_H

#include <stdbool.h>

struct loop;
struct probe;
struct report;
struct sideband;
struct track;

struct follow_options {
	struct loop *loop;
	struct sideband *sideband;
	struct probe *probe;
	struct track *track;
	struct report *report;
};

struct follow;

/* Everything in `options` is borrowed. 0 or -errno. */
int follow_new(struct follow **ret, const struct follow_options *options);
/* Before the loop and the modules go. NULL is fine. */
void follow_free(struct follow *f);
/* Whether CPUs that come are to be sampled: between probe_attach and probe_detach. */
void follow_sampling(struct follow *f, bool on);

#endif
