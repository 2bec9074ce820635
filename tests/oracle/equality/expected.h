// SPDX-License-Identifier: Apache-2.0
/* From readelf's columns to what `proflet tables` would print for them. */
#ifndef PROFLET_EQUALITY_EXPECTED_H
#define PROFLET_EQUALITY_EXPECTED_H

#include "tests/oracle/equality/expressions.h"
#include "tests/oracle/equality/frames.h"
#include "tests/oracle/equality/texts.h"

/* The columns of `proflet tables`, or what they should be. The strings are from one struct texts. */
struct rule_text {
	const char *cfa;
	const char *fp; /* NULL: readelf's columns say nothing of the frame pointer */
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
/* The rule of row `row` of the FDE (SIZE_MAX: it has no row, the CIE's holds). An index into rules, or
 * -ENOMEM. */
int64_t expected_rule(struct expected *e, const struct frames_entry *fde, size_t row);

#endif
