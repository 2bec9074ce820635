// SPDX-License-Identifier: Apache-2.0
#include "agent/runtime/utf8_text.h"

#include <string.h>

#include "agent/base/buf.h"
#include "agent/runtime/text_character.h"

/* How many bytes a character has that begins with `byte`, with the bits of it that are the character's. */
static size_t sequence(uint8_t byte, uint32_t *ret_bits)
{
	static const struct {
		uint8_t mask, value;
	} forms[] = {{0x80, 0}, {0xe0, 0xc0}, {0xf0, 0xe0}, {0xf8, 0xf0}};

	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
		if ((byte & forms[i].mask) == forms[i].value) {
			*ret_bits = byte & ~forms[i].mask & 0xffu;
			return i + 1;
		}
	return 0;
}

/* Reads a character. Returns its bytes; 0: there is no valid one. */
static size_t read_character(const uint8_t *at, size_t len, uint32_t *ret)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	uint32_t c = 0;
	size_t n = sequence(at[0], &c);

	if (!n || n > len)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (at[i] & 0x3fu);
	}
	*ret = c;
	return c >= least[n] ? n : 0;
}

bool utf8_text_is(const uint8_t *text, size_t len, bool cut)
{
	const uint8_t *at = text, *end = text + len;

	while (at < end) {
		uint32_t c;
		size_t n = read_character(at, (size_t)(end - at), &c);

		if (!n)
			return cut && end - at < (ptrdiff_t)TEXT_UTF8_MAX && (*at & 0xc0) == 0xc0;
		at += n;
	}
	return true;
}

int utf8_text_append(struct buf *out, const uint8_t *text, size_t len, bool cut)
{
	const uint8_t *at = text, *end = text + len;
	uint8_t *to;
	int r = buf_reserve(out, len * TEXT_UTF8_MAX + strlen(UTF8_TEXT_ELLIPSIS));

	if (r < 0)
		return r;
	for (to = out->data + out->len; at < end;) {
		uint32_t c = TEXT_REPLACEMENT;
		size_t n = read_character(at, (size_t)(end - at), &c);

		if (!n && cut && end - at < (ptrdiff_t)TEXT_UTF8_MAX && (*at & 0xc0) == 0xc0)
			break; /* a character that was cut */
		to = text_character_put(to, n ? c : TEXT_REPLACEMENT);
		at += n ?: 1;
	}
	out->len = (size_t)(to - out->data);
	return cut ? buf_puts(out, UTF8_TEXT_ELLIPSIS) : 0; /* there is room */
}
