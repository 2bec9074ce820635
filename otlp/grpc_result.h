// SPDX-License-Identifier: Apache-2.0
/* The result of one gRPC call. */
#ifndef PROFLET_OTLP_GRPC_RESULT_H
#define PROFLET_OTLP_GRPC_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/buf.h"
#include "otlp/response.h"

#define GRPC_RESPONSE_MAX (4u << 20) /* bytes of a response message, also after decompression */

struct grpc_result {
	enum grpc_status status;
	unsigned http_status; /* 0: no response headers arrived */
	bool unprocessed;     /* the server says that it did nothing: repeat at once, on another connection */
	bool unanswered;      /* the server may have the whole request, but did not answer */
	bool has_delay;
	uint64_t delay_ns; /* RetryInfo or grpc-retry-pushback-ms */
	unsigned codings;  /* grpc-accept-encoding, see otlp_codings_parse; 0: the server sent none */
	char message[OTLP_TEXT_MAX]; /* the server's text, or ours when it sent none */
	struct buf response;	     /* the decoded message of a call that ended with GRPC_OK */
};

#endif
