// SPDX-License-Identifier: Apache-2.0
/* Reads the rows that `proflet tables` printed. */
#ifndef PROFLET_EQUALITY_TABLE_H
#define PROFLET_EQUALITY_TABLE_H

#include "tests/oracle/equality/expected.h"
#include "tests/oracle/equality/lines.h"

struct table_row {
	uint64_t start, end;
	uint32_t rule;
};

struct table {
	struct texts keys; /* the columns of a row, separated by TABs */
	struct rule_text *rules;
	struct table_row *rows; /* by address, not overlapping */
	size_t n_rows, rows_cap, rules_cap;
};

/* 0; -ENOMEM; -EINVAL: malformed rows, or not in order. Call table_fini() in both cases. */
int table_read(struct table *t, struct texts *texts, struct lines *from);
void table_fini(struct table *t);

#endif
