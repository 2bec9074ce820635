// SPDX-License-Identifier: Apache-2.0
#include "otlp/wire.h"

#include <errno.h>
#include <string.h>

#include <protobuf-c/protobuf-c.h>

size_t wire_varint_size(uint64_t value)
{
	size_t n = 1;

	for (; value >= 0x80; value >>= 7)
		n++;
	return n;
}

size_t wire_bytes_size(size_t len)
{
	return 1 + wire_varint_size(len) + len;
}

int wire_put_varint(struct buf *b, uint64_t value)
{
	uint8_t bytes[WIRE_VARINT_MAX];
	size_t n = 0;

	for (; value >= 0x80; value >>= 7)
		bytes[n++] = (uint8_t)(value | 0x80);
	bytes[n++] = (uint8_t)value;
	return buf_append(b, bytes, n);
}

int wire_put_frame(struct buf *b, uint32_t field, size_t len)
{
	int r;

	r = buf_reserve(b, wire_bytes_size(len));
	if (r < 0)
		return r;
	r = buf_putc(b, (char)(field << 3 | WIRE_BYTES));
	return r < 0 ? r : wire_put_varint(b, len);
}

int wire_put_bytes(struct buf *b, uint32_t field, const void *data, size_t len)
{
	int r;

	r = wire_put_frame(b, field, len);
	return r < 0 ? r : buf_append(b, data, len);
}

int wire_put_message(struct buf *b, uint32_t field, const struct ProtobufCMessage *m)
{
	size_t len = protobuf_c_message_get_packed_size(m);
	int r;

	r = wire_put_frame(b, field, len);
	if (r < 0)
		return r;
	b->len += protobuf_c_message_pack(m, b->data + b->len);
	return 0;
}

int wire_pack(struct buf *b, const struct ProtobufCMessage *m)
{
	int r;

	r = buf_reserve(b, protobuf_c_message_get_packed_size(m) + 1);
	if (r < 0)
		return r;
	b->len += protobuf_c_message_pack(m, b->data + b->len);
	return 0;
}

static int get_varint(struct wire_reader *r, uint64_t *ret)
{
	uint64_t value = 0;

	for (size_t i = 0; i < WIRE_VARINT_MAX && i < r->len; i++) {
		value |= (uint64_t)(r->data[i] & 0x7f) << (7 * i);
		if (r->data[i] & 0x80)
			continue;
		r->data += i + 1;
		r->len -= i + 1;
		*ret = value;
		return 0;
	}
	return -EBADMSG;
}

static int get_fixed(struct wire_reader *r, size_t size, uint64_t *ret)
{
	uint64_t value = 0;

	if (r->len < size)
		return -EBADMSG;
	for (size_t i = 0; i < size; i++)
		value |= (uint64_t)r->data[i] << (8 * i);
	r->data += size;
	r->len -= size;
	*ret = value;
	return 0;
}

static int get_bytes(struct wire_reader *r, struct wire_reader *ret)
{
	uint64_t len;
	int err;

	err = get_varint(r, &len);
	if (err < 0)
		return err;
	if (len > r->len)
		return -EBADMSG;
	*ret = (struct wire_reader){r->data, (size_t)len};
	r->data += len;
	r->len -= (size_t)len;
	return 0;
}

int wire_next(struct wire_reader *r, struct wire_field *ret)
{
	struct wire_field f = {0};
	uint64_t tag;
	int err;

	if (!r->len)
		return 0;
	err = get_varint(r, &tag);
	if (err < 0)
		return err;
	if (tag >> 3 == 0 || tag > UINT32_MAX)
		return -EBADMSG;
	f.number = (uint32_t)(tag >> 3);
	switch (tag & 7) {
	case WIRE_VARINT:
		err = get_varint(r, &f.value);
		break;
	case WIRE_FIXED64:
		err = get_fixed(r, 8, &f.value);
		break;
	case WIRE_FIXED32:
		err = get_fixed(r, 4, &f.value);
		break;
	case WIRE_BYTES:
		err = get_bytes(r, &f.body);
		break;
	default:
		err = -EBADMSG;
	}
	if (err < 0)
		return err;
	f.type = (enum wire_type)(tag & 7);
	*ret = f;
	return 1;
}
