// SPDX-License-Identifier: Apache-2.0
#include "otlp/utf8.h"

#include <stdint.h>
#include <string.h>

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

/*
 * The number of bytes of the character at `s`; 0: it is invalid. The range of the second byte excludes the
 * forbidden forms.
 */
static size_t character(const unsigned char *s, size_t len)
{
	unsigned char low = 0x80, high = 0xbf;
	size_t n;

	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xc2 && s[0] <= 0xdf)
		n = 2;
	else if ((s[0] & 0xf0) == 0xe0)
		n = 3;
	else if (s[0] >= 0xf0 && s[0] <= 0xf4)
		n = 4;
	else
		return 0;
	if (s[0] == 0xe0)
		low = 0xa0;
	else if (s[0] == 0xed)
		high = 0x9f;
	else if (s[0] == 0xf0)
		low = 0x90;
	else if (s[0] == 0xf4)
		high = 0x8f;
	if (len < n || s[1] < low || s[1] > high)
		return 0;
	for (size_t i = 2; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

/* Nearly every string is ASCII, so eight bytes at a time are checked until one is not. */
static size_t ascii_prefix(const char *s, size_t len)
{
	uint64_t word;
	size_t i = 0;

	for (; len - i >= sizeof word; i += sizeof word) {
		memcpy(&word, s + i, sizeof word);
		if (word & 0x8080808080808080ull)
			break;
	}
	return i;
}

bool utf8_valid(const char *s, size_t len)
{
	for (size_t i = ascii_prefix(s, len), n; i < len; i += n) {
		n = character((const unsigned char *)s + i, len - i);
		if (!n)
			return false;
	}
	return true;
}

int utf8_sanitize(struct buf *b, const char *s, size_t len, size_t max_bytes)
{
	size_t start = b->len;
	int r;

	for (size_t i = 0; i < len;) {
		size_t n = character((const unsigned char *)s + i, len - i);
		const char *from = n ? s + i : replacement;
		size_t size = n ? n : strlen(replacement);

		if (b->len - start + size > max_bytes)
			return 0;
		r = buf_append(b, from, size);
		if (r < 0)
			return r;
		i += n ? n : 1;
	}
	return 0;
}
