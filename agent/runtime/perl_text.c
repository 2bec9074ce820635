// SPDX-License-Identifier: Apache-2.0
#include "agent/runtime/perl_text.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "agent/base/buf.h"
#include "agent/runtime/text_character.h"
#include "agent/runtime/utf8_text.h"

#define HEK_LENGTH 4u
#define HEK_TEXT 8u

/* Appends a text whose bytes are characters. */
static int latin_append(struct buf *out, const uint8_t *at, size_t len, bool cut)
{
	uint8_t *to;
	int r = buf_reserve(out, len * TEXT_UTF8_MAX + strlen(UTF8_TEXT_ELLIPSIS));

	if (r < 0)
		return r;
	to = out->data + out->len;
	for (size_t i = 0; i < len; i++)
		to = text_character_put(to, at[i]);
	out->len = (size_t)(to - out->data);
	return cut ? buf_puts(out, UTF8_TEXT_ELLIPSIS) : 0; /* there is room */
}

int perl_text_append(struct buf *out, const uint8_t *hek, size_t len)
{
	int32_t length;
	bool cut;
	int r;

	if (len < HEK_TEXT)
		return -EBADMSG;
	memcpy(&length, hek + HEK_LENGTH, sizeof length);
	if (length < 0)
		return -EBADMSG;
	hek += HEK_TEXT;
	len -= HEK_TEXT;
	cut = (size_t)length > len;
	if (!cut)
		len = (size_t)length;
	r = utf8_text_is(hek, len, cut) ? utf8_text_append(out, hek, len, cut)
					: latin_append(out, hek, len, cut);
	return r < 0 ? r : cut;
}
