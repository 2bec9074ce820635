// SPDX-License-Identifier: Apache-2.0
/* Writes one line of a screen. Text that does not fit its columns is cut; styles take no columns. Private. */
#ifndef PROFLET_OUTPUT_LINE_H
#define PROFLET_OUTPUT_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/base/buf.h"

/* SGR parameters that are readable on light and dark backgrounds. */
#define LINE_BOLD "1"
#define LINE_DIM "2"
#define LINE_REVERSE "7"
#define LINE_RED "31"
#define LINE_MAGENTA "35"

struct line {
	struct buf *out;
	size_t columns, used;
	bool colour;
	int error; /* the first one; nothing is written after it */
};

void line_style(struct line *l, const char *sgr);
void line_plain(struct line *l);
/* Cleaned text, cut at the line's end. */
void line_put(struct line *l, const char *s);
void line_printf(struct line *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Foreign text, which is cleaned first. */
void line_put_foreign(struct line *l, const char *s);
/* Pads to exactly `width` columns, or to the end of the line; cuts a longer text in its middle. */
void line_cell(struct line *l, const char *s, size_t width);
/* Blanks up to a column. */
void line_fill(struct line *l, size_t column);
/* Ends a line and begins the next. */
void line_end(struct line *l);

#endif
