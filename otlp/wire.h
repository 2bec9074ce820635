// SPDX-License-Identifier: Apache-2.0
/*
 * The protobuf wire format: writes lengths and tags around messages that protobuf-c packs, and reads the few
 * small messages that servers send. The reader allocates nothing, so no answer can exhaust memory. Rank
 * 1 (otlp).
 */
#ifndef PROFLET_OTLP_WIRE_H
#define PROFLET_OTLP_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/buf.h"

struct ProtobufCMessage;

#define WIRE_VARINT_MAX 10 /* maximum bytes of a varint */
/* Maximum bytes of tag and length, for a field number below 16 and a body below 32 GiB. */
#define WIRE_FRAME_MAX 6

size_t wire_varint_size(uint64_t value);
/* The encoded size of a length-delimited field (number below 16) with a body of `len` bytes. */
size_t wire_bytes_size(size_t len);

/* These append to `b`; errors are those of buf_append. Field numbers are below 16. */
int wire_put_varint(struct buf *b, uint64_t value);
/* Appends tag and length of a body of `len` bytes, and reserves room for the body. */
int wire_put_frame(struct buf *b, uint32_t field, size_t len);
int wire_put_bytes(struct buf *b, uint32_t field, const void *data, size_t len);
int wire_put_message(struct buf *b, uint32_t field, const struct ProtobufCMessage *m);
/* Appends the body of the message, without tag and length. */
int wire_pack(struct buf *b, const struct ProtobufCMessage *m);

/* A borrowed view of the bytes that are not read yet. */
struct wire_reader {
	const uint8_t *data;
	size_t len;
};

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

struct wire_field {
	uint32_t number;
	enum wire_type type;
	uint64_t value;		 /* value of a numeric type */
	struct wire_reader body; /* body of WIRE_BYTES, borrowed from the reader's bytes */
};

/* Reads the next field. 1; 0 at the end; -EBADMSG: the bytes are not a message (groups are refused, too). */
int wire_next(struct wire_reader *r, struct wire_field *ret);

#endif
