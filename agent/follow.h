// SPDX-License-Identifier: Apache-2.0
/*
 * Follows changes of the machine: CPUs that come online or go offline (checked once a second), and steps of
 * the wall clock (notified by the kernel). Main loop only.
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
/* Call before the loop and the modules are freed. NULL is fine. */
void follow_free(struct follow *f);
/* Turns sampling of new CPUs on or off: it is on between probe_attach and probe_detach. */
void follow_sampling(struct follow *f, bool on);

#endif
