// SPDX-License-Identifier: Apache-2.0
#include "agent/output/screen_line.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/buf.h"
#include "agent/output/display_text.h"

#define ELLIPSIS "\xe2\x80\xa6"
#define MAX_FOREIGN 512 /* bytes of a foreign text */

static void append(struct line *l, const char *s, size_t n)
{
	if (l->error == 0)
		l->error = buf_append(l->out, s, n);
}

void line_style(struct line *l, const char *sgr)
{
	if (!l->colour)
		return;
	append(l, "\033[", 2);
	append(l, sgr, strlen(sgr));
	append(l, "m", 1);
}

void line_plain(struct line *l)
{
	line_style(l, "0");
}

void line_put(struct line *l, const char *s)
{
	size_t n = output_text_fit(s, l->columns - l->used);

	l->used += s[n] ? l->columns - l->used : output_text_width(s);
	append(l, s, n);
}

void line_printf(struct line *l, const char *format, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof text, format, ap);
	va_end(ap);
	line_put(l, text);
}

void line_put_foreign(struct line *l, const char *s)
{
	_cleanup_buf_ struct buf clean = {0};

	if (output_text_clean(&clean, s, MAX_FOREIGN) < 0)
		l->error = -ENOMEM;
	else
		line_put(l, buf_str(&clean));
}

void line_fill(struct line *l, size_t column)
{
	for (; l->used < column && l->used < l->columns; l->used++)
		append(l, " ", 1);
}

/* The start of the last `columns` columns of a text of width `width`. */
static const char *tail_of(const char *s, size_t width, size_t columns)
{
	size_t n = output_text_fit(s, width - columns);

	while (output_text_width(s + n) > columns) /* a wide character lies across the cut */
		n += output_text_bytes(s + n, 1);
	return s + n;
}

void line_cell(struct line *l, const char *s, size_t width)
{
	size_t n = output_text_width(s), end;

	if (width > l->columns - l->used)
		width = l->columns - l->used;
	end = l->used + width;
	if (n > width && width) {
		size_t tail = (width - 1) / 3, head = width - 1 - tail;

		head = output_text_fit(s, head);
		append(l, s, head);
		append(l, ELLIPSIS, strlen(ELLIPSIS));
		l->used += n - output_text_width(s + head) + 1;
		s = tail_of(s, n, tail);
	}
	if (width)
		line_put(l, s);
	line_fill(l, end);
}

void line_end(struct line *l)
{
	while (!l->colour && l->used && l->out->len && l->out->data[l->out->len - 1] == ' ')
		l->out->len--; /* remove trailing blanks */
	append(l, "\n", 1);
	l->used = 0;
}
