// SPDX-License-Identifier: Apache-2.0
/*
 * When to ask the kubelet. Regularly, once a minute; sooner when a container turns up that its last list did
 * not have, again and again for a while, because the kubelet learns of it later than we do; and ever more
 * rarely while it does not answer. No clock of its own, no I/O. Rank 1.
 */
#ifndef PROFLET_CGROUP_PACE_H
#define PROFLET_CGROUP_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define PACE_SOON_NS (5ull * 1000000000ull)  /* between two answers, at least */
#define PACE_IDLE_NS (60ull * 1000000000ull) /* when nothing new turns up */
#define PACE_RETRY_NS (2ull * 1000000000ull) /* after the first failure, doubled with each */
#define PACE_RETRY_MAX_NS (300ull * 1000000000ull)

/* Times of CLOCK_MONOTONIC. Zeroed: ask now. */
struct pace {
	uint64_t due_ns, asked_ns, wait_ns;
	unsigned failures; /* in a row */
};

/* An answer came, or none. `random`: 0 to 1, by which nodes that failed together come apart. */
void pace_answered(struct pace *p, uint64_t now_ns, bool ok, double random);
/* A container turned up that is not known. */
void pace_unknown(struct pace *p, uint64_t now_ns);

#endif
