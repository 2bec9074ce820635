// SPDX-License-Identifier: Apache-2.0
/*
 * What a server says to one call, collected from headers, data and trailers, and what it comes to. No nghttp2
 * inside. Internal to grpc.c and its tests. Rank 1 (otlp).
 */
#ifndef PROFLET_OTLP_GRPC_ANSWER_H
#define PROFLET_OTLP_GRPC_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "otlp/grpc_result.h"
#include "otlp/request.h"

#define GRPC_PREFIX_BYTES 5 /* compressed flag and big-endian length before a message */

/* Embedded; zeroed, then grpc_answer_init. */
struct grpc_answer {
	bool is_grpc; /* by its content-type */
	bool has_status;
	enum grpc_status status;
	enum otlp_coding coding; /* of the response message */
	char content_type[OTLP_TEXT_MAX];
	struct buf body; /* the message with its prefix */
	struct grpc_result result;
};

void grpc_answer_init(struct grpc_answer *a);
void grpc_answer_fini(struct grpc_answer *a);

/* A header or trailer. Unknown and broken ones are ignored, except for a broken grpc-status, which is
 * GRPC_UNKNOWN. */
void grpc_answer_header(struct grpc_answer *a, const char *name, size_t name_len, const char *value,
			size_t len);
/* -EOVERFLOW: more than a response may have. -ENOMEM. */
int grpc_answer_data(struct grpc_answer *a, const void *data, size_t len);

/* Everything has come: fills in result. */
void grpc_answer_conclude(struct grpc_answer *a);
/* Something else ended the call: this status, and this text unless the server gave one. */
void grpc_answer_fail(struct grpc_answer *a, enum grpc_status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
