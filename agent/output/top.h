// SPDX-License-Identifier: Apache-2.0
/*
 * The summary for a terminal: the functions with the most samples of their own, then the shares of processes
 * and containers.
 */
#ifndef PROFLET_OUTPUT_TOP_H
#define PROFLET_OUTPUT_TOP_H

#include <stddef.h>
#include <stdio.h>

#include "agent/output/colour.h"

struct output_profile;

struct output_top_options {
	size_t n_functions; /* 0: 20 */
	size_t n_groups;    /* processes, containers; 0: 8 */
	unsigned columns;   /* 0: those of the terminal, else 100; kept within 80 and 120 */
	enum output_colour colour;
};

/* 0, -ENOMEM, -EIO when `f` failed. */
int output_top_write(const struct output_profile *p, const struct output_top_options *options, FILE *f);

#endif
