// SPDX-License-Identifier: Apache-2.0
#include "agent/runtime/v8_text.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/runtime/text_character.h"
#include "agent/runtime/utf8_text.h"

/* How a text begins. */
struct head {
	uint32_t length, width;
};

/* The character at `i`, of n; *ret_units: of how many it was made. */
static uint32_t character(const uint8_t *text, uint32_t width, size_t i, size_t n, size_t *ret_units)
{
	uint16_t high, low;

	*ret_units = 1;
	if (width == 1)
		return text[i];
	memcpy(&high, text + i * 2, sizeof high);
	if ((high & 0xfc00) != 0xd800 || i + 1 >= n)
		return high;
	memcpy(&low, text + i * 2 + 2, sizeof low);
	if ((low & 0xfc00) != 0xdc00)
		return high;
	*ret_units = 2;
	return 0x10000u + ((uint32_t)(high & 0x3ff) << 10 | (low & 0x3ff));
}

int v8_text_append(struct buf *out, const uint8_t *text, size_t len)
{
	struct head head;
	size_t n, units;
	uint8_t *to;
	bool cut;
	int r;

	if (len < sizeof head)
		return -EBADMSG;
	memcpy(&head, text, sizeof head);
	text += sizeof head;
	len -= sizeof head;
	if ((head.width != 1 && head.width != 2) || len > (uint64_t)head.length * head.width)
		return -EBADMSG;
	n = len / head.width;
	cut = n < head.length;
	r = buf_reserve(out, n * TEXT_UTF8_MAX + strlen(UTF8_TEXT_ELLIPSIS));
	if (r < 0)
		return r;
	to = out->data + out->len;
	for (size_t i = 0; i < n; i += units) {
		const uint32_t c = character(text, head.width, i, n, &units);

		if (cut && i + 1 == n && (c & 0xfffffc00u) == 0xd800)
			break; /* a character that was cut */
		to = text_character_put(to, c);
	}
	out->len = (size_t)(to - out->data);
	if (cut)
		(void)buf_puts(out, UTF8_TEXT_ELLIPSIS); /* there is room */
	return cut;
}

/* Whether the guessed name is "….name". */
static bool ends_in(const struct buf *guessed, const uint8_t *name, size_t len)
{
	return guessed->len > len + 1 && guessed->data[guessed->len - len - 1] == '.' &&
	       memcmp(guessed->data + guessed->len - len, name, len) == 0;
}

int v8_name_append(struct buf *out, const uint8_t *name, size_t name_len, const uint8_t *guessed,
		   size_t guessed_len)
{
	_cleanup_buf_ struct buf guess = {0};
	const size_t before = out->len;
	int r = name_len ? v8_text_append(out, name, name_len) : 0, cut = r > 0;

	if (r >= 0 && guessed_len)
		r = v8_text_append(&guess, guessed, guessed_len);
	if (r < 0) {
		out->len = before;
		return r;
	}
	if (guess.len &&
	    (out->len == before || (!cut && ends_in(&guess, out->data + before, out->len - before)))) {
		out->len = before;
		cut = guessed_len && r > 0;
		r = buf_append(out, guess.data, guess.len);
	} else {
		r = out->len == before ? buf_puts(out, V8_NAME_ANONYMOUS) : 0;
	}
	return r < 0 ? r : cut;
}
