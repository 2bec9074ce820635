// SPDX-License-Identifier: Apache-2.0
/*
 * The profile as a tree in text: each function below the one that called it, or each below the one that it
 * calls, those with the most samples first.
 */
#ifndef PROFLET_OUTPUT_TREE_H
#define PROFLET_OUTPUT_TREE_H

#include <stdbool.h>
#include <stdio.h>

#include "agent/output/colour.h"

struct output_profile;

/* What the outermost rows stand for. */
enum output_by {
	OUTPUT_BY_NONE, /* functions */
	OUTPUT_BY_PROCESS,
	OUTPUT_BY_CONTAINER,
	OUTPUT_BY_THREAD
};

struct output_tree_options {
	enum output_by by;
	bool callers;	    /* from the innermost functions to their callers */
	double min_percent; /* of all samples; rows with fewer are added up in one. 0: 0.5 */
	unsigned columns;   /* as struct output_top_options */
	enum output_colour colour;
};

/* 0, -ENOMEM, -EIO when `f` failed. */
int output_tree_write(const struct output_profile *p, const struct output_tree_options *options, FILE *f);

#endif
