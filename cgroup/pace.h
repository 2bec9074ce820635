// SPDX-License-Identifier: Apache-2.0
/*
 * Decides when to send the kubelet a request: once a minute; sooner when a container appears that the last
 * list did not have, repeatedly for a while, because the kubelet learns about containers later than we do;
 * and at growing intervals while it does not answer. Reads no clock and does no I/O.
 */
#ifndef PROFLET_CGROUP_PACE_H
#define PROFLET_CGROUP_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define PACE_SOON_NS (5ull * 1000000000ull)  /* minimum between two requests */
#define PACE_IDLE_NS (60ull * 1000000000ull) /* when no new container appears */
#define PACE_RETRY_NS (2ull * 1000000000ull) /* after the first failure, doubled with each */
#define PACE_RETRY_MAX_NS (300ull * 1000000000ull)

/* Times of CLOCK_MONOTONIC. Zeroed: a request is due now. */
struct pace {
	uint64_t due_ns, asked_ns, wait_ns;
	unsigned failures; /* in a row */
};

/* A request was answered, or failed. `random` (0 to 1) spreads the retries of nodes that failed together. */
void pace_answered(struct pace *p, uint64_t now_ns, bool ok, double random);
/* An unknown container has appeared. */
void pace_unknown(struct pace *p, uint64_t now_ns);

#endif
