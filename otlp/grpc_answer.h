// SPDX-License-Identifier: Apache-2.0
/*
 * Collects a server's answer to one call from headers, data and trailers, and derives the result of the call.
 * Does not use nghttp2. Private to grpc.c. Rank 1 (otlp).
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
	bool is_grpc; /* its content-type is that of gRPC */
	bool has_status;
	enum grpc_status status;
	enum otlp_coding coding; /* of the response message */
	char content_type[OTLP_TEXT_MAX];
	struct buf body; /* the message with its prefix */
	struct grpc_result result;
};

void grpc_answer_init(struct grpc_answer *a);
void grpc_answer_fini(struct grpc_answer *a);

/*
 * Adds a header or trailer. Unknown and malformed ones are ignored, except a malformed grpc-status, which
 * becomes GRPC_UNKNOWN.
 */
void grpc_answer_header(struct grpc_answer *a, const char *name, size_t name_len, const char *value,
			size_t len);
/* Adds data. 0; -EOVERFLOW: the response is larger than GRPC_RESPONSE_MAX allows; -ENOMEM. */
int grpc_answer_data(struct grpc_answer *a, const void *data, size_t len);

/* The answer is complete: fills in the result. */
void grpc_answer_conclude(struct grpc_answer *a);
/*
 * The call ended otherwise: fills in the result with this status, and with this text unless the server
 * sent one.
 */
void grpc_answer_fail(struct grpc_answer *a, enum grpc_status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
