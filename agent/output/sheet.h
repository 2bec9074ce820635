// SPDX-License-Identifier: Apache-2.0
/* Where text is written: how wide it may be, and whether it has styles. Private to output/. */
#ifndef PROFLET_OUTPUT_SHEET_H
#define PROFLET_OUTPUT_SHEET_H

#include <stdbool.h>
#include <stdio.h>

#include "agent/output/colour.h"

#define SHEET_BOLD "\033[1m"
#define SHEET_DIM "\033[2m"
#define SHEET_PLAIN "\033[0m"

struct sheet {
	FILE *f; /* borrowed */
	unsigned columns;
	bool colour;
};

/* Widths of text; `otherwise` is that of what is no terminal. */
struct sheet_columns {
	unsigned min, max, otherwise;
};

/* `columns` 0: those of the terminal. They are kept within the limits. */
struct sheet sheet_of(FILE *f, unsigned columns, const struct sheet_columns *limits,
		      enum output_colour colour);
/* The code, or "" where there are no styles. */
const char *sheet_style(const struct sheet *s, const char *code);

#endif
