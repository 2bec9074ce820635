// SPDX-License-Identifier: Apache-2.0
/* One line of a screen: text that does not fit is cut, styles take no columns. Private to output/. */
#ifndef PROFLET_OUTPUT_SCREEN_LINE_H
#define PROFLET_OUTPUT_SCREEN_LINE_H

#include <stdbool.h>
#include <stddef.h>

struct buf;

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

void line_style(struct line *l, const char *sgr); /* nothing without colour */
void line_plain(struct line *l);
/* Writes cleaned text, cut at the end of the line. */
void line_put(struct line *l, const char *s);
__attribute__((format(printf, 2, 3))) void line_printf(struct line *l, const char *format, ...);
/* Cleans foreign text and writes it. */
void line_put_foreign(struct line *l, const char *s);
/* Writes blanks up to a column. */
void line_fill(struct line *l, size_t column);
/* Writes a text in exactly `width` columns, or up to the end of the line. Cuts a longer one in its middle. */
void line_cell(struct line *l, const char *s, size_t width);
/* Ends the line and begins the next. */
void line_end(struct line *l);

#endif
