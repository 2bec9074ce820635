// SPDX-License-Identifier: Apache-2.0
#include "agent/output/wire.h"

#include "agent/base/buf.h"

enum { WIRE_VARINT = 0, WIRE_LEN = 2 };

int wire_varint(struct buf *b, uint64_t value)
{
	uint8_t bytes[10];
	size_t n = 0;

	do {
		bytes[n] = (value & 0x7f) | (value > 0x7f ? 0x80 : 0);
		value >>= 7;
		n++;
	} while (value);
	return buf_append(b, bytes, n);
}

int wire_uint(struct buf *b, unsigned field, uint64_t value)
{
	int r;

	if (!value)
		return 0;
	r = wire_varint(b, (uint64_t)field << 3 | WIRE_VARINT);
	return r < 0 ? r : wire_varint(b, value);
}

int wire_bytes(struct buf *b, unsigned field, const void *data, size_t len)
{
	int r = wire_varint(b, (uint64_t)field << 3 | WIRE_LEN);

	if (r == 0)
		r = wire_varint(b, len);
	return r < 0 ? r : buf_append(b, data, len);
}

int wire_message(struct buf *b, unsigned field, const struct buf *message)
{
	return wire_bytes(b, field, message->data, message->len);
}
