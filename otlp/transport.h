// SPDX-License-Identifier: Apache-2.0
/*
 * gRPC calls over one connection that is opened when needed and kept while the server likes it: conn.h moves
 * bytes between the socket and the session of grpc.h. One thread uses it. Rank 1 (otlp).
 */
#ifndef PROFLET_OTLP_TRANSPORT_H
#define PROFLET_OTLP_TRANSPORT_H

#include <stdint.h>

#include "agent/base/cleanup.h"
#include "otlp/endpoint.h"
#include "otlp/grpc.h"
#include "otlp/proxy.h"
#include "otlp/tls.h"

#define OTLP_GRPC_PATH "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"

struct otlp_transport;

/* Borrowed until otlp_transport_free. */
struct otlp_transport_options {
	const struct otlp_endpoint *endpoint;
	const struct otlp_tls_options *tls;
	const struct otlp_headers *headers;
	const struct otlp_proxy *proxy; /* NULL: straight to the endpoint */
	const char *user_agent;
	uint64_t timeout_ns; /* of a call, connecting included */
};

int otlp_transport_new(struct otlp_transport **ret,
		       const struct otlp_transport_options *opt); /* 0, -ENOMEM */
void otlp_transport_free(struct otlp_transport *t);

/*
 * Sends one message, coded as said, and waits for the answer. 0: *ret has it, and a connection that cannot be
 * made is the answer GRPC_UNAVAILABLE; `unprocessed` is also set when a kept connection turned out to be
 * dead. -ECANCELED: cancel_fd became readable. -ENOMEM. The caller ends ret->response with buf_fini.
 */
int otlp_transport_call(struct otlp_transport *t, const void *data, size_t len, enum otlp_coding coding,
			int cancel_fd, struct grpc_result *ret);

/* Between calls: the next one makes a connection of its own. */
void otlp_transport_disconnect(struct otlp_transport *t);

/* Between calls: the descriptor to watch (-1: no connection) for these events, and what to do when one comes.
 */
int otlp_transport_fd(const struct otlp_transport *t, short *ret_events);
void otlp_transport_idle(struct otlp_transport *t);

DEFINE_CLEANUP(struct otlp_transport *, otlp_transport_free)
#define _cleanup_transport_ _cleanup_(otlp_transport_free_p)

#endif
