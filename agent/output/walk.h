// SPDX-License-Identifier: Apache-2.0
/*
 * Several groups walked as one tree of functions: nodes that differ only in process, thread or address are
 * visited as one. Every writer that shows functions rather than addresses stands on this. Private.
 */
#ifndef PROFLET_OUTPUT_WALK_H
#define PROFLET_OUTPUT_WALK_H

#include <stddef.h>
#include <stdint.h>

struct output_profile;
struct output_group;

/* Either may be NULL; a negative result ends the walk with it. */
struct output_walk_ops {
	/* Before the node's children. `depth` is 1 for the outermost frame; `self`: samples that end here. */
	int (*enter)(void *data, uint32_t function, size_t depth, uint64_t self);
	/* After them. `total` is self plus everything below. */
	int (*leave)(void *data, uint32_t function, size_t depth, uint64_t total);
};

/* Siblings are visited by function id. 0, -ENOMEM, or what a callback returned. */
int output_walk(const struct output_profile *p, const struct output_group *const *groups, size_t n_groups,
		const struct output_walk_ops *ops, void *data);

#endif
