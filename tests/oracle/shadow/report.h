// SPDX-License-Identifier: Apache-2.0
/* Prints the results. */
#ifndef PROFLET_TESTS_SHADOW_REPORT_H
#define PROFLET_TESTS_SHADOW_REPORT_H

#include <stdio.h>

#include "tests/oracle/shadow/judge.h"

/*
 * Prints a line "# key=value …" for scripts, then the details of each number, with at most `limit` places per
 * verdict.
 */
void report_print(FILE *out, const struct judge *j, const struct shadow *s, const struct tables *t,
		  size_t limit);

#endif
