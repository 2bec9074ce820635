// SPDX-License-Identifier: Apache-2.0
/* Shared by the tests of the gRPC session: a call, and the exchange of bytes with the scripted server. */
#ifndef TEST_GRPC_SUPPORT_H
#define TEST_GRPC_SUPPORT_H

#include <criterion/criterion.h>

#include "h2_server.h"
#include "otlp/grpc.h"
#include "otlp/transport.h"

struct end {
	unsigned n;
	struct grpc_result result;
};

static inline void on_done(void *data, struct grpc_result *result)
{
	struct end *end = data;

	end->n++;
	end->result = *result;
	result->response = (struct buf){0};
}

static inline struct h2_reply same_reply(void *data, unsigned request)
{
	(void)request;
	return *(struct h2_reply *)data;
}

/* Moves bytes in pieces of at most `piece` until neither side has any. True if it moved some. */
static inline bool exchange(struct grpc_session *c, struct h2_server *s, size_t piece)
{
	bool moved = false, any;

	do {
		const uint8_t *data;
		size_t len;

		any = false;
		cr_assert_eq(grpc_session_take(c, &data, &len), 0);
		for (size_t i = 0; i < len; i += piece) {
			cr_assert_eq(h2_server_feed(s, data + i, len - i < piece ? len - i : piece), 0);
			any = true;
		}
		while ((len = h2_server_take(s, &data))) {
			for (size_t i = 0; i < len; i += piece)
				if (grpc_session_feed(c, data + i, len - i < piece ? len - i : piece) < 0)
					return true;
			any = true;
		}
		moved |= any;
	} while (any);
	return moved;
}

static inline struct grpc_call a_call(const void *data, size_t len)
{
	return (struct grpc_call){
		.scheme = "http",
		.authority = "127.0.0.1:4317",
		.path = OTLP_GRPC_PATH,
		.user_agent = "proflet/test",
		.timeout_ns = 10000000000,
		.coding = OTLP_GZIP,
		.data = data,
		.len = len,
	};
}

#endif
