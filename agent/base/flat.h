// SPDX-License-Identifier: Apache-2.0
/*
 * Flat bytes: what requests and answers consist of. Values stand one after the other as they are in memory,
 * since both sides are the same program; strings and arrays have their length before them. A reader takes
 * nothing that is not there: after the first mistake it is `bad`, and all that it returns is 0 or empty.
 */
#ifndef PROFLET_BASE_FLAT_H
#define PROFLET_BASE_FLAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "agent/base/buf.h"

struct flat_reader {
	const uint8_t *at, *end;
	bool bad;
};

/* `bytes` may be NULL if there are none. */
static inline struct flat_reader flat_read(const void *bytes, size_t len)
{
	return (struct flat_reader){.at = bytes, .end = len ? (const uint8_t *)bytes + len : bytes};
}

/* The next `len` bytes, borrowed; NULL: there are fewer. */
static inline const uint8_t *flat_bytes(struct flat_reader *r, size_t len)
{
	const uint8_t *bytes = r->at;

	if (r->bad || len > (size_t)(r->end - r->at)) {
		r->bad = true;
		return NULL;
	}
	if (len)
		r->at += len;
	return bytes;
}

/* Copies a value; zeroes where it is missing. */
static inline void flat_get(struct flat_reader *r, void *value, size_t len)
{
	const uint8_t *bytes = flat_bytes(r, len);

	if (bytes)
		memcpy(value, bytes, len);
	else
		memset(value, 0, len);
}

static inline uint64_t flat_u64(struct flat_reader *r)
{
	uint64_t v;

	flat_get(r, &v, sizeof v);
	return v;
}

/*
 * Whether a bool that was copied from such bytes is one. If not, it must not be used: what the compiler makes
 * of another value than 0 and 1 is undefined.
 */
static inline bool flat_is_bool(const bool *b)
{
	uint8_t byte;

	memcpy(&byte, b, sizeof byte);
	return byte <= 1;
}

/* A string that flat_put_string wrote, borrowed, with its NUL; "" where there is none, and then it is bad. */
static inline const char *flat_string(struct flat_reader *r)
{
	uint64_t n = flat_u64(r);
	const uint8_t *bytes = n ? flat_bytes(r, n) : NULL;

	if (!bytes || memchr(bytes, 0, n) != bytes + n - 1) {
		r->bad = true;
		return "";
	}
	return (const char *)bytes;
}

/* Everything was read, and nothing was missing. */
static inline bool flat_done(const struct flat_reader *r)
{
	return !r->bad && r->at == r->end;
}

static inline int flat_put_u64(struct buf *b, uint64_t v)
{
	return buf_append(b, &v, sizeof v);
}

static inline int flat_put_string(struct buf *b, const char *s)
{
	size_t n = strlen(s) + 1;
	int r = flat_put_u64(b, n);

	return r < 0 ? r : buf_append(b, s, n);
}

#endif
