// SPDX-License-Identifier: Apache-2.0
/*
 * The protobuf wire format: lengths and tags around messages that protobuf-c packs, and a reader for the few
 * small messages that servers send. The reader allocates nothing, so that no answer of a server can make it.
 * Rank 1 (otlp).
 */
#ifndef PROFLET_OTLP_WIRE_H
#define PROFLET_OTLP_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/buf.h"

struct ProtobufCMessage;

#define WIRE_VARINT_MAX 10 /* bytes of any varint */
#define WIRE_FRAME_MAX 6   /* bytes of tag and length of a field numbered below 16 and shorter than 32 GiB */

size_t wire_varint_size(uint64_t value);
/* Bytes of a length-delimited field (number below 16) with a body of `len` bytes. */
size_t wire_bytes_size(size_t len);

/* Append to `b`; errors are those of buf_append. Field numbers are below 16. */
int wire_put_varint(struct buf *b, uint64_t value);
/* Tag and length of a body of `len` bytes, for which there is then room. */
int wire_put_frame(struct buf *b, uint32_t field, size_t len);
int wire_put_bytes(struct buf *b, uint32_t field, const void *data, size_t len);
int wire_put_message(struct buf *b, uint32_t field, const struct ProtobufCMessage *m);
/* The message's body alone. */
int wire_pack(struct buf *b, const struct ProtobufCMessage *m);

/* A view of bytes that stay the caller's. */
struct wire_reader {
	const uint8_t *data;
	size_t len;
};

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

struct wire_field {
	uint32_t number;
	enum wire_type type;
	uint64_t value;		 /* of the numeric types */
	struct wire_reader body; /* of WIRE_BYTES, borrowed from the reader's bytes */
};

/* 1 and the next field, 0 at the end, -EBADMSG where the bytes are no message (groups are refused, too). */
int wire_next(struct wire_reader *r, struct wire_field *ret);

#endif
