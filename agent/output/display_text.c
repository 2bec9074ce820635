// SPDX-License-Identifier: Apache-2.0
#include "agent/output/display_text.h"

#include <locale.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <wchar.h>

#include "agent/base/buf.h"

#define ELLIPSIS "\xe2\x80\xa6"
#define REPLACEMENT "\xef\xbf\xbd"

/* Decodes one character at `s` (NUL terminated). Bytes taken, 0 when malformed: overlong forms and surrogates
 * are. */
static size_t decode(const uint8_t *s, uint32_t *ret)
{
	static const uint32_t min[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t n = s[0] < 0x80	 ? 1
		   : s[0] < 0xc2 ? 0
		   : s[0] < 0xe0 ? 2
		   : s[0] < 0xf0 ? 3
		   : s[0] < 0xf5 ? 4
				 : 0;
	uint32_t c = n == 1 ? s[0] : s[0] & (0x7f >> n);

	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	if (n && (c < min[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)))
		return 0;
	*ret = c;
	return n;
}

static bool is_harmful(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x202a && c <= 0x202e) ||
	       (c >= 0x2066 && c <= 0x2069);
}

/* Number of leading printable ASCII bytes: nearly all of nearly every name. */
static size_t plain_span(const char *s, size_t max)
{
	size_t n = 0;

	while (n < max && s[n] >= 0x20 && s[n] < 0x7f)
		n++;
	return n;
}

int output_text_clean(struct buf *out, const char *s, size_t max_bytes)
{
	size_t start = out->len,
	       plain = max_bytes > strlen(ELLIPSIS) ? plain_span(s, max_bytes - strlen(ELLIPSIS)) : 0;

	if (plain) {
		int r = buf_append(out, s, plain);

		if (r < 0)
			return r;
		s += plain;
	}
	while (*s) {
		uint32_t c = 0;
		size_t n = decode((const uint8_t *)s, &c);
		const char *text = n == 0 ? REPLACEMENT : is_harmful(c) ? "?" : s;
		size_t len = n == 0 ? strlen(REPLACEMENT) : text == s ? n : 1;
		int r;

		if (out->len - start + len + strlen(ELLIPSIS) > max_bytes)
			return buf_puts(out, ELLIPSIS);
		r = buf_append(out, text, len);
		if (r < 0)
			return r;
		s += n ? n : 1;
	}
	return 0;
}

void output_text_json(FILE *f, const char *s)
{
	fputc('"', f);
	while (*s) {
		uint32_t c = 0;
		size_t n = decode((const uint8_t *)s, &c);

		/* "<", ">" and "&" so that no name can close the script element; U+2028/9 end a line in
		 * JavaScript */
		if (n == 1 && (c < 0x20 || c == 0x7f || strchr("\"\\<>&'", (int)c)))
			fprintf(f, "\\u%04x", (unsigned)c);
		else if (n == 0 || c == 0x2028 || c == 0x2029)
			fprintf(f, "\\u%04x", n ? (unsigned)c : 0xfffdu);
		else
			fwrite(s, 1, n, f);
		s += n ? n : 1;
	}
	fputc('"', f);
}

size_t output_text_columns(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += (*s & 0xc0) != 0x80;
	return n;
}

size_t output_text_bytes(const char *s, size_t columns)
{
	const char *p = s;

	for (; *p; p++)
		if ((*p & 0xc0) != 0x80 && columns-- == 0)
			break;
	return (size_t)(p - s);
}

static locale_t utf8; /* 0: not available; then each character counts as one column */

static void utf8_open(void)
{
	utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
}

/* As wcwidth(3) in a UTF-8 locale. Unknown characters count as one column. */
static size_t char_width(uint32_t c)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	locale_t old;
	int width;

	if (c < 0x80)
		return 1;
	pthread_once(&once, utf8_open);
	if (!utf8)
		return 1;
	old = uselocale(utf8);
	width = wcwidth((wchar_t)c);
	uselocale(old);
	return width < 0 ? 1 : (size_t)width;
}

size_t output_text_fit(const char *s, size_t columns)
{
	const char *p = s;

	while (*p) {
		uint32_t c = 0;
		size_t n = decode((const uint8_t *)p, &c), width = n ? char_width(c) : 1;

		if (width > columns)
			break;
		columns -= width;
		p += n ? n : 1;
	}
	return (size_t)(p - s);
}

size_t output_text_width(const char *s)
{
	size_t width = 0;

	while (*s) {
		uint32_t c = 0;
		size_t n = decode((const uint8_t *)s, &c);

		width += n ? char_width(c) : 1;
		s += n ? n : 1;
	}
	return width;
}

const char *output_text_file(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	if (!slash || slash == path || strncmp(name, "__", 2) != 0)
		return name;
	while (slash > path && slash[-1] != '/')
		slash--;
	return slash;
}
