// SPDX-License-Identifier: Apache-2.0
/*
 * A growing byte buffer with a hard maximum.
 *
 * All functions return 0, -ENOMEM, or -EOVERFLOW when the maximum would be passed (nothing is written then).
 */
#ifndef PROFLET_BASE_BUF_H
#define PROFLET_BASE_BUF_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
	uint8_t *data;	 /* owned; NULL while empty. Not NUL terminated, see buf_str() */
	size_t len, cap; /* bytes */
	size_t max;	 /* bytes; 0 = BUF_DEFAULT_MAX */
};

#define BUF_DEFAULT_MAX (256u << 20)

void buf_init(struct buf *b, size_t max_bytes);
void buf_fini(struct buf *b); /* frees; a zeroed or finished buffer is fine */
void buf_clear(struct buf *b);
int buf_reserve(struct buf *b, size_t extra_bytes);
/* Gives back the memory that the content does not need. */
void buf_trim(struct buf *b);
int buf_append(struct buf *b, const void *data, size_t len);
int buf_puts(struct buf *b, const char *s);
int buf_putc(struct buf *b, char c);
int buf_printf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
int buf_vprintf(struct buf *b, const char *format, va_list ap) __attribute__((format(printf, 2, 0)));
/* The content as a C string, borrowed until the next change of `b`; "" when memory is short. */
const char *buf_str(struct buf *b);

#define _cleanup_buf_ __attribute__((cleanup(buf_fini)))

#endif
