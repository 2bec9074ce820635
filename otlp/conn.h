// SPDX-License-Identifier: Apache-2.0
/*
 * A non-blocking connection: TCP (plain or TLS) or a Unix socket. Owned by its caller, used by one thread.
 * Rank 1 (otlp).
 */
#ifndef PROFLET_OTLP_CONN_H
#define PROFLET_OTLP_CONN_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/cleanup.h"
#include "otlp/endpoint.h"
#include "otlp/proxy.h"
#include "otlp/tls.h"

struct otlp_conn;

/*
 * Resolves the host, and tries every address in turn until a connection is made, including the TLS handshake.
 * With a proxy (NULL: none) the addresses are the proxy's, and the handshake goes through its tunnel. Blocks
 * until the deadline (monotonic) or until cancel_fd (-1: none) is readable. 0; or -ETIMEDOUT, -ECANCELED,
 * -ENOMEM, -ECONNREFUSED for every other failure, each with `why`, one line without secrets.
 */
int otlp_conn_open(struct otlp_conn **ret, const struct otlp_endpoint *endpoint,
		   const struct otlp_proxy *proxy, const struct otlp_tls_options *tls,
		   uint64_t deadline_mono_ns, int cancel_fd, char *why, size_t why_size);
void otlp_conn_free(struct otlp_conn *c);

/* 0 and *ret_n > 0; -EAGAIN; -ECONNRESET: the peer closed the connection, or the connection failed. */
int otlp_conn_read(struct otlp_conn *c, void *data, size_t size, size_t *ret_n);
int otlp_conn_write(struct otlp_conn *c, const void *data, size_t size, size_t *ret_n);

int otlp_conn_fd(const struct otlp_conn *c); /* borrowed */
/* One line that says why read or write failed. Borrowed. */
const char *otlp_conn_lost(const struct otlp_conn *c);
/* The poll events to wait for after -EAGAIN of read and, if `writing`, of write. */
short otlp_conn_events(const struct otlp_conn *c, int writing);

DEFINE_CLEANUP(struct otlp_conn *, otlp_conn_free)
#define _cleanup_conn_ _cleanup_(otlp_conn_free_p)

#endif
