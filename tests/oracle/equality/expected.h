// SPDX-License-Identifier: Apache-2.0
/* Converts readelf's columns to the text that `proflet tables` should print for them. */
#ifndef PROFLET_EQUALITY_EXPECTED_H
#define PROFLET_EQUALITY_EXPECTED_H

#include "tests/oracle/equality/expressions.h"
#include "tests/oracle/equality/frames.h"
#include "tests/oracle/equality/texts.h"

/* The columns of `proflet tables`, actual or expected. The strings are from one struct texts. */
struct rule_text {
	const char *cfa;
	const char *fp; /* NULL: readelf's columns do not contain the frame pointer */
	const char *ra;
};

struct expected {
	struct texts *texts; /* borrowed */
	struct frames *frames;
	const struct expressions *expressions;
	struct rule_text *rules; /* owned */
	size_t n_rules, cap;
};

void expected_init(struct expected *e, struct frames *f, const struct expressions *x);
void expected_fini(struct expected *e);
/*
 * Finds the expected rule of row `row` of the FDE (SIZE_MAX: the FDE has no row, so the rule of the CIE
 * applies). Returns an index into rules, or -ENOMEM.
 */
int64_t expected_rule(struct expected *e, const struct frames_entry *fde, size_t row);

#endif
