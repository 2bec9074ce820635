// SPDX-License-Identifier: Apache-2.0
/* One line of a screen: what does not fit its columns is cut, styles cost none. Rank 2, private. */
#ifndef PROFLET_OUTPUT_LINE_H
#define PROFLET_OUTPUT_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/base/buf.h"

/* SGR parameters that can be read on a light and on a dark background. */
#define LINE_BOLD "1"
#define LINE_DIM "2"
#define LINE_REVERSE "7"
#define LINE_RED "31"
#define LINE_MAGENTA "35"

struct line {
	struct buf *out;
	size_t columns, used;
	bool colour;
	int error; /* the first one; then nothing is written any more */
};

void line_style(struct line *l, const char *sgr);
void line_plain(struct line *l);
/* Cleaned text, cut at the line's end. */
void line_put(struct line *l, const char *s);
void line_printf(struct line *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Foreign text: cleaned first. */
void line_put_foreign(struct line *l, const char *s);
/* Exactly `width` columns, as far as the line has them; a longer text loses its middle. */
void line_cell(struct line *l, const char *s, size_t width);
/* Blanks up to a column. */
void line_fill(struct line *l, size_t column);
/* Ends a line and begins the next. */
void line_end(struct line *l);

#endif
