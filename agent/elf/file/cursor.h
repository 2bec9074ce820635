// SPDX-License-Identifier: Apache-2.0
/*
 * A bounds-checked reader over borrowed little-endian bytes. A read past the end returns 0 and sets `bad`,
 * which stays set: a parser may read a group of fields and check `bad` once at the end.
 */
#ifndef PROFLET_ELF_CURSOR_H
#define PROFLET_ELF_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct cursor {
	const uint8_t *pos, *end;
	bool bad; /* a read went past `end`, or a LEB128 number did not fit 64 bits */
};

static inline struct cursor cursor_of(const void *bytes, size_t len)
{
	return (struct cursor){.pos = bytes, .end = (const uint8_t *)bytes + len};
}

static inline size_t cursor_left(const struct cursor *c)
{
	return (size_t)(c->end - c->pos);
}

/* Returns the next `len` bytes and moves past them; NULL, with `bad` set, when there are fewer. */
static inline const uint8_t *cursor_take(struct cursor *c, uint64_t len)
{
	const uint8_t *bytes = c->pos;

	if (len > cursor_left(c)) {
		c->bad = true;
		c->pos = c->end;
		return NULL;
	}
	c->pos += len;
	return bytes;
}

#define CURSOR_READ(name, type)                                      \
	static inline type cursor_##name(struct cursor *c)           \
	{                                                            \
		const uint8_t *bytes = cursor_take(c, sizeof(type)); \
		type value = 0;                                      \
                                                                     \
		if (bytes)                                           \
			memcpy(&value, bytes, sizeof(value));        \
		return value;                                        \
	}

CURSOR_READ(u8, uint8_t)
CURSOR_READ(u16, uint16_t)
CURSOR_READ(u32, uint32_t)
CURSOR_READ(u64, uint64_t)

#define LEB_BITS_MAX 140 /* redundant padding bytes are legal; this bounds them */

/* Reads a LEB128 number of any length (DWARF 5 section 7.6). */
static inline uint64_t cursor_leb_long(struct cursor *c, bool is_signed)
{
	uint64_t value = 0;
	unsigned shift = 0;
	uint8_t byte;

	do {
		byte = cursor_u8(c);
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		/* bits beyond the 64th must repeat the sign (signed) or be zero (unsigned) */
		if (shift >= 63) {
			uint8_t fill = is_signed && value >> 63 ? 0x7f : 0;

			if ((byte & 0x7f) != (shift == 63 && !is_signed ? (byte & 1) : fill))
				c->bad = true;
		}
		shift += 7;
		if (shift > LEB_BITS_MAX)
			c->bad = true;
	} while ((byte & 0x80) && !c->bad);
	if (c->bad)
		c->pos = c->end;
	if (is_signed && shift < 64 && (byte & 0x40))
		value |= ~0ull << shift;
	return value;
}

static inline uint64_t cursor_uleb(struct cursor *c)
{
	if (c->pos < c->end && !(*c->pos & 0x80))
		return *c->pos++;
	return cursor_leb_long(c, false);
}

static inline int64_t cursor_sleb(struct cursor *c)
{
	return (int64_t)cursor_leb_long(c, true);
}

#endif
