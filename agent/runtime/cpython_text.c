// SPDX-License-Identifier: Apache-2.0
#include "agent/runtime/cpython_text.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "agent/base/buf.h"
#include "agent/elf/runtime/cpython.h"
#include "agent/runtime/text_character.h"

#define KIND_BITS 7u

/* The characters of a string object that are there. */
struct characters {
	const uint8_t *at;
	size_t width; /* bytes of each: 1, 2 or 4 */
	size_t n;
	bool cut; /* the string has more */
};

/* Little-endian, as the machine is. False: outside. */
static bool read_field(const uint8_t *object, size_t len, size_t at, void *ret, size_t bytes)
{
	if (at > len || bytes > len - at)
		return false;
	memcpy(ret, object + at, bytes);
	return true;
}

/* 0, -ENODATA, -ENOTSUP. */
static int find_characters(struct characters *ret, const struct cpython_layout *l, const uint8_t *object,
			   size_t len)
{
	uint64_t length;
	uint32_t state, kind;
	bool ascii;
	size_t at;

	if (!read_field(object, len, l->text_length, &length, sizeof length) ||
	    !read_field(object, len, l->text_state, &state, sizeof state))
		return -ENODATA;
	kind = state >> (l->kind_shift & 31) & KIND_BITS;
	ascii = state >> (l->ascii_bit & 31) & 1;
	if (!(state >> (l->compact_bit & 31) & 1) || (kind != 1 && kind != 2 && kind != 4) ||
	    (ascii && kind != 1))
		return -ENOTSUP;
	at = ascii ? l->ascii_text : l->wide_text;
	if (length && (at > len || len - at < kind))
		return -ENODATA;
	ret->at = object + (length ? at : 0);
	ret->width = kind;
	ret->n = length ? (len - at) / kind : 0;
	ret->cut = length > ret->n;
	ret->n = ret->cut ? ret->n : length;
	return 0;
}

static uint32_t character(const struct characters *c, size_t i)
{
	const uint8_t *at = c->at + i * c->width;
	uint32_t four;
	uint16_t two;

	if (c->width == 1)
		return *at;
	if (c->width == 2) {
		memcpy(&two, at, sizeof two);
		return two;
	}
	memcpy(&four, at, sizeof four);
	return four;
}

int cpython_text_append(struct buf *out, const struct cpython_layout *layout, const uint8_t *object,
			size_t len)
{
	struct characters c;
	uint8_t *to;
	int r = find_characters(&c, layout, object, len);

	if (r < 0)
		return r;
	r = buf_reserve(out, c.n * TEXT_UTF8_MAX + strlen(CPYTHON_TEXT_ELLIPSIS));
	if (r < 0)
		return r;
	to = out->data + out->len;
	for (size_t i = 0; i < c.n; i++)
		to = text_character_put(to, character(&c, i));
	out->len = (size_t)(to - out->data);
	if (c.cut)
		r = buf_puts(out, CPYTHON_TEXT_ELLIPSIS); /* there is room */
	return r < 0 ? r : c.cut;
}
