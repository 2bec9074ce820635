// SPDX-License-Identifier: Apache-2.0
/*
 * A set of binaries that are held: what the frames of a window, or of a sample that waits, refer to. The set
 * has one reference of each of its binaries, however often that is added.
 */
#ifndef PROFLET_BINARY_BINARY_SET_H
#define PROFLET_BINARY_BINARY_SET_H

#include <stdint.h>

struct binary_registry;

struct binary_set {
	struct binary_registry *registry; /* borrowed */
	uint64_t *bits;			  /* owned; one for each index */
};

/* 0 or -ENOMEM. */
int binary_set_init(struct binary_set *s, struct binary_registry *r);
/* Releases what it has. A zeroed set is fine. */
void binary_set_fini(struct binary_set *s);
/* Indices without a binary are left out. */
void binary_set_add(struct binary_set *s, uint32_t index);
void binary_set_clear(struct binary_set *s);

#endif
