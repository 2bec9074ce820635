// SPDX-License-Identifier: Apache-2.0
#include "agent/symbol/jitdump.h"

#include <byteswap.h>
#include <errno.h>
#include <string.h>

#include "agent/symbol/jittable.h"

#define MAGIC 0x4a695444u /* "JiTD" */
#define VERSION 1u
#define HEADER_BYTES 40u
#define HEADER_MAX 4096u

/* Bytes of the header of every record: id, total size, time. */
#define RECORD_BYTES 16u

enum { CODE_LOAD = 0, CODE_MOVE = 1, CODE_DEBUG_INFO = 2, CODE_CLOSE = 3, CODE_UNWINDING_INFO = 4 };

/* Offsets in a record. */
#define LOAD_ADDRESS 32u
#define LOAD_SIZE 40u
#define LOAD_NAME 56u
#define MOVE_OLD 32u
#define MOVE_NEW 40u
#define MOVE_SIZE 48u
#define MOVE_BYTES 64u

_Static_assert(LOAD_NAME + JIT_NAME_MAX <= JITDUMP_BYTES_NEEDED, "the longest name fits");
_Static_assert(HEADER_MAX <= JITDUMP_BYTES_NEEDED, "header");

static uint32_t get_u32(const struct jitdump *d, const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof v);
	return d->swapped ? bswap_32(v) : v;
}

static uint64_t get_u64(const struct jitdump *d, const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof v);
	return d->swapped ? bswap_64(v) : v;
}

/* Returns the length of the header; 0: more bytes are needed; -EBADMSG. */
static int parse_header(struct jitdump *d, const uint8_t *p, size_t len)
{
	uint32_t magic, size;

	if (len < HEADER_BYTES)
		return 0;
	memcpy(&magic, p, sizeof magic);
	if (magic != MAGIC && bswap_32(magic) != MAGIC)
		return -EBADMSG;
	d->swapped = magic != MAGIC;
	size = get_u32(d, p + 8);
	if (get_u32(d, p + 4) != VERSION || size < HEADER_BYTES || size > HEADER_MAX)
		return -EBADMSG;
	d->begun = true;
	return (int)size;
}

/* The record has `size` bytes, of which `len` are in memory. */
static int parse_load(const struct jitdump *d, struct jit_builder *b, const uint8_t *p, size_t size,
		      size_t len)
{
	size_t n = size < len ? size : len;

	if (n <= LOAD_NAME)
		return -EINVAL;
	return jit_builder_add(b, get_u64(d, p + LOAD_ADDRESS), get_u64(d, p + LOAD_SIZE),
			       (const char *)p + LOAD_NAME, n - LOAD_NAME);
}

static int parse_record(struct jitdump *d, struct jit_builder *b, const uint8_t *p, size_t size, size_t len)
{
	switch (get_u32(d, p)) {
	case CODE_LOAD:
		return parse_load(d, b, p, size, len);
	case CODE_MOVE:
		if (size < MOVE_BYTES)
			return -EINVAL;
		return jit_builder_move(b, get_u64(d, p + MOVE_OLD), get_u64(d, p + MOVE_NEW),
					get_u64(d, p + MOVE_SIZE));
	case CODE_CLOSE:
		d->ended = true;
		return 0;
	case CODE_DEBUG_INFO: /* line tables and unwind data: not used */
	case CODE_UNWINDING_INFO:
	default: /* of a later version */
		return 0;
	}
}

/* Enough of the record is in memory to parse it. */
static bool record_here(size_t size, size_t len)
{
	return len >= size || len >= JITDUMP_BYTES_NEEDED;
}

int jitdump_parse(struct jitdump *d, struct jit_builder *b, const uint8_t *bytes, size_t len,
		  uint64_t *ret_used)
{
	int r = 0;

	*ret_used = 0;
	if (!d->begun && !d->ended) {
		r = parse_header(d, bytes, len);
		if (r <= 0) {
			d->ended = r < 0;
			return r;
		}
		*ret_used = (uint64_t)r;
	}
	while (!d->ended && *ret_used < len && len - *ret_used >= RECORD_BYTES) {
		const uint8_t *p = bytes + *ret_used;
		size_t here = len - *ret_used;
		uint32_t size = get_u32(d, p + 4);

		if (size < RECORD_BYTES) { /* the start of the next record is unknown */
			d->n_bad++;
			d->ended = true;
			break;
		}
		if (!record_here(size, here))
			break;
		r = parse_record(d, b, p, size, here);
		if (r == -ENOSPC || r == -ENOMEM)
			return r;
		d->n_bad += r < 0;
		*ret_used += size;
	}
	return 0;
}
