// SPDX-License-Identifier: Apache-2.0
/* Runs readelf and proflet on one file and compares their rows. */
#ifndef PROFLET_EQUALITY_CHECK_H
#define PROFLET_EQUALITY_CHECK_H

#include "tests/oracle/equality/compare.h"

#define CHECK_WHY 256 /* bytes */

struct check_options {
	const char *proflet;   /* program */
	const char *rows;      /* file with the output of `proflet tables`; NULL: run it */
	const char *summary;   /* file with the output of `proflet tables --summary`; NULL: run it */
	const char *reference; /* the file that readelf reads; NULL: the same one */
	size_t show;
};

/* Prints differences. 0; or -errno, with the reason in `why` (NUL terminated). */
int check_file(const struct check_options *o, const char *path, struct compare_result *ret,
	       char why[static CHECK_WHY]);

#endif
