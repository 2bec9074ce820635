// SPDX-License-Identifier: Apache-2.0
/*
 * Walks several groups as one tree of functions: nodes that differ only in process, thread or address are
 * visited as one. Used by all writers that show functions rather than addresses. Private to output/.
 */
#ifndef PROFLET_OUTPUT_WALK_H
#define PROFLET_OUTPUT_WALK_H

#include <stddef.h>
#include <stdint.h>

struct output_profile;
struct output_group;
struct output_node;

/* Callbacks; each may be NULL. A negative result ends the walk and is returned. */
struct output_walk_ops {
	/* Called before `enter`, for each recorded node that it stands for. */
	void (*node)(void *data, const struct output_node *node);
	/*
	 * Called before the children of a node. `depth` is 1 for the outermost frame; `self`: samples that
	 * end here.
	 */
	int (*enter)(void *data, uint32_t function, size_t depth, uint64_t self);
	/* Called after them. `total` is `self` plus the samples below. */
	int (*leave)(void *data, uint32_t function, size_t depth, uint64_t total);
};

/* Visits siblings in the order of their function ids. 0, -ENOMEM, or the result of a callback. */
int output_walk(const struct output_profile *p, const struct output_group *const *groups, size_t n_groups,
		const struct output_walk_ops *ops, void *data);

#endif
