// SPDX-License-Identifier: Apache-2.0
/* The difference of two recordings as a table for a terminal. */
#ifndef PROFLET_OUTPUT_DIFFERENCE_H
#define PROFLET_OUTPUT_DIFFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "agent/output/colour.h"

/* A function. Shares are of 1; strings are borrowed. */
struct difference_row {
	const char *name, *origin;
	double a, b;	  /* its share before and after */
	double low, high; /* 95 % interval of the difference */
	bool certain;	  /* beyond noise */
};

/* Rows that are certain come first: those that grew, then those that shrank. */
struct difference {
	const struct difference_row *rows;
	size_t n, n_shown; /* of each table, at most */
	bool total;	   /* shares have what a function calls */
	unsigned columns;  /* as struct output_top_options */
	enum output_colour colour;
};

/* 0, or -EIO when `f` failed. */
int output_difference_write(const struct difference *d, FILE *f);

#endif
