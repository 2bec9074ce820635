// SPDX-License-Identifier: Apache-2.0
/* The columns of each view. Rank 2, private. */
#ifndef PROFLET_OUTPUT_SCREEN_TABLE_H
#define PROFLET_OUTPUT_SCREEN_TABLE_H

#include "agent/output/live.h"
#include "agent/output/line.h"

struct screen_table {
	enum output_live_view view;
	bool by_total;
	uint64_t samples;		/* all: 100 % */
	double samples_of_a_cpu;	/* as one busy CPU gives in that time */
	size_t name, module, container; /* widths; 0: no such column */
};

/* Finds the widths for a terminal of so many columns; the rest is the caller's to set. */
void screen_table_init(struct screen_table *t, enum output_live_view view,
		       const struct output_live_rows *rows, size_t columns);
/* A line. */
void screen_table_heads(const struct screen_table *t, struct line *l);
/* What stands in a line, without its end. */
void screen_table_row(const struct screen_table *t, const struct output_live_row *row, struct line *l);

#endif
