// SPDX-License-Identifier: Apache-2.0
/* What was found, as text. */
#ifndef PROFLET_TESTS_SHADOW_REPORT_H
#define PROFLET_TESTS_SHADOW_REPORT_H

#include <stdio.h>

#include "tests/oracle/shadow/judge.h"

/* One line "# key=value …" for scripts, then what stands behind each number. At most `limit` places a
 * verdict. */
void report_print(FILE *out, const struct judge *j, const struct shadow *s, const struct tables *t,
		  size_t limit);

#endif
