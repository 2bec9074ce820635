// SPDX-License-Identifier: Apache-2.0
/*
 * gRPC calls over one connection, which is opened when needed and reused while the server allows it. It moves
 * bytes between the socket (conn.h) and the session (grpc.h). Used by one thread. Rank 1 (otlp).
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
	const struct otlp_proxy *proxy; /* NULL: connect directly */
	const char *user_agent;
};

int otlp_transport_new(struct otlp_transport **ret,
		       const struct otlp_transport_options *opt); /* 0, -ENOMEM */
void otlp_transport_free(struct otlp_transport *t);

/*
 * Sends one message in its coding and waits for the answer until the deadline (monotonic), which includes the
 * connection. 0 with *ret; a connection that cannot be made, and a server that sends without end, give
 * GRPC_UNAVAILABLE; `unprocessed` is also set when the connection, opened for an earlier call, turned out to
 * be dead. -ECANCELED: cancel_fd became readable. -ENOMEM. The caller frees ret->response with buf_fini.
 */
int otlp_transport_call(struct otlp_transport *t, const void *data, size_t len, enum otlp_coding coding,
			uint64_t deadline_mono_ns, int cancel_fd, struct grpc_result *ret);

/* Call between calls: the next one makes a new connection. */
void otlp_transport_disconnect(struct otlp_transport *t);

/*
 * For use between calls: the descriptor to watch for these events (-1: no connection), and the function to
 * call when one of them occurs.
 */
int otlp_transport_fd(const struct otlp_transport *t, short *ret_events);
void otlp_transport_idle(struct otlp_transport *t);

DEFINE_CLEANUP(struct otlp_transport *, otlp_transport_free)
#define _cleanup_transport_ _cleanup_(otlp_transport_free_p)

#endif
