// SPDX-License-Identifier: Apache-2.0
#include "agent/base/buf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_init(struct buf *b, size_t max_bytes)
{
	*b = (struct buf){.max = max_bytes};
}

void buf_fini(struct buf *b)
{
	free(b->data);
	b->data = NULL;
	b->len = b->cap = 0;
}

void buf_clear(struct buf *b)
{
	b->len = 0;
}

int buf_reserve(struct buf *b, size_t extra_bytes)
{
	size_t max = b->max ? b->max : BUF_DEFAULT_MAX, cap = b->cap ? b->cap : 64;
	uint8_t *data;

	if (extra_bytes > max || b->len > max - extra_bytes)
		return -EOVERFLOW;
	if (b->len + extra_bytes <= b->cap)
		return 0;
	while (cap < b->len + extra_bytes)
		cap *= 2;
	data = realloc(b->data, cap);
	if (!data)
		return -ENOMEM;
	b->data = data;
	b->cap = cap;
	return 0;
}

void buf_trim(struct buf *b)
{
	uint8_t *data = b->len ? realloc(b->data, b->len) : NULL;

	if (!data)
		return;
	b->data = data;
	b->cap = b->len;
}

int buf_append(struct buf *b, const void *data, size_t len)
{
	int r = buf_reserve(b, len);

	if (r < 0)
		return r;
	if (len)
		memcpy(b->data + b->len, data, len);
	b->len += len;
	return 0;
}

int buf_puts(struct buf *b, const char *s)
{
	return buf_append(b, s, strlen(s));
}

int buf_putc(struct buf *b, char c)
{
	return buf_append(b, &c, 1);
}

int buf_vprintf(struct buf *b, const char *format, va_list ap)
{
	va_list again;
	int n, r;

	va_copy(again, ap);
	n = vsnprintf(NULL, 0, format, again);
	va_end(again);
	if (n < 0)
		return -EINVAL;
	r = buf_reserve(b, (size_t)n + 1);
	if (r < 0)
		return r;
	vsnprintf((char *)b->data + b->len, (size_t)n + 1, format, ap);
	b->len += (size_t)n;
	return 0;
}

int buf_printf(struct buf *b, const char *format, ...)
{
	va_list ap;
	int r;

	va_start(ap, format);
	r = buf_vprintf(b, format, ap);
	va_end(ap);
	return r;
}

const char *buf_str(struct buf *b)
{
	if (buf_reserve(b, 1) < 0)
		return "";
	b->data[b->len] = '\0';
	return (const char *)b->data;
}
