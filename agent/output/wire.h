// SPDX-License-Identifier: Apache-2.0
/*
 * Protocol buffers wire encoding into a buffer: what pprof needs of it. Fields with the default value (0, "")
 * are left out, as proto3 does. All return what buf_append returns. Rank 2, private.
 */
#ifndef PROFLET_OUTPUT_WIRE_H
#define PROFLET_OUTPUT_WIRE_H

#include <stddef.h>
#include <stdint.h>

struct buf;

int wire_varint(struct buf *b, uint64_t value);
int wire_uint(struct buf *b, unsigned field, uint64_t value);
int wire_bytes(struct buf *b, unsigned field, const void *data,
	       size_t len); /* also when empty: a list element counts */
int wire_message(struct buf *b, unsigned field, const struct buf *message);

#endif
