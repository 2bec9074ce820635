// SPDX-License-Identifier: Apache-2.0
/*
 * A set of binaries, with one reference to each, however often it is added. A window has one for the binaries
 * that its frames are of.
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
/* Releases all references and memory. A zeroed set is fine. */
void binary_set_fini(struct binary_set *s);
/* Ignores an index without a binary. */
void binary_set_add(struct binary_set *s, uint32_t index);
/* Releases all references: the set is empty. */
void binary_set_clear(struct binary_set *s);

#endif
