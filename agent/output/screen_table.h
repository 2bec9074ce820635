// SPDX-License-Identifier: Apache-2.0
/* The table of a screen: the columns of each kind of table, and their widths. Private to output/. */
#ifndef PROFLET_OUTPUT_SCREEN_TABLE_H
#define PROFLET_OUTPUT_SCREEN_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/output/live.h"

struct line;

enum screen_table_kind {
	SCREEN_FUNCTIONS,
	SCREEN_PROCESSES,
	SCREEN_CONTAINERS,
	SCREEN_CALLS, /* callers and callees of a function */
};

struct screen_table {
	enum screen_table_kind kind;
	bool by_total;
	uint64_t samples;		      /* 100 % */
	uint64_t all;			      /* calls: 100 % of TOTAL% */
	double samples_of_a_cpu;	      /* samples that one busy CPU produces in that time */
	size_t role, name, module, container; /* widths; 0: no such column */
};

/* The widths; the caller sets the numbers. */
void screen_table_init(struct screen_table *t, enum screen_table_kind kind,
		       const struct output_live_rows *rows, size_t columns);
void screen_table_heads(const struct screen_table *t, struct line *l);
/* A row, without the end of its line. */
void screen_table_row(const struct screen_table *t, const struct output_live_row *row, bool selected,
		      struct line *l);

static inline double screen_percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

#endif
