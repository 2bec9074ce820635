// SPDX-License-Identifier: Apache-2.0
/*
 * TLS of one connection, by OpenSSL: at least TLS 1.2; the server is verified; the protocol negotiated by
 * ALPN must be h2, which gRPC servers require. Certificates are read from their files for each connection,
 * because Kubernetes rotates secrets by swapping symbolic links. The BIO writes with MSG_NOSIGNAL, so a
 * closed connection is an error and never SIGPIPE. Rank 1 (otlp).
 */
#ifndef PROFLET_OTLP_TLS_H
#define PROFLET_OTLP_TLS_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/base/cleanup.h"

struct otlp_endpoint;
struct ssl_st;

/* Borrowed strings; NULL: not configured. */
struct otlp_tls_options {
	const char *ca;		 /* PEM file; NULL: the system's roots */
	const char *cert, *key;	 /* PEM files for mTLS, both or none */
	const char *server_name; /* name for SNI and verification; NULL: the endpoint's host */
	bool insecure;		 /* accept any certificate */
};

/*
 * Creates a client on the connected non-blocking socket (borrowed); the handshake has not started. 0,
 * -ENOMEM, or -EINVAL: a file cannot be used, `why` names it.
 */
int otlp_tls_new(struct ssl_st **ret, int fd, const struct otlp_endpoint *endpoint,
		 const struct otlp_tls_options *opt, char *why, size_t why_size);
void otlp_tls_free(struct ssl_st *ssl);

/* 0: done; -EAGAIN: repeat when the socket has *ret_events (poll); -EPROTO with `why`. */
int otlp_tls_handshake(struct ssl_st *ssl, short *ret_events, char *why, size_t why_size);
/* 0 and *ret_n > 0; -EAGAIN with *ret_events; -ECONNRESET: closed or failed, otlp_tls_reason says why. */
int otlp_tls_read(struct ssl_st *ssl, void *data, size_t size, size_t *ret_n, short *ret_events);
int otlp_tls_write(struct ssl_st *ssl, const void *data, size_t size, size_t *ret_n, short *ret_events);
/*
 * Writes one line about the last failure on this thread: an alert of the server, or a certificate
 * it requested.
 */
void otlp_tls_reason(struct ssl_st *ssl, char *why, size_t why_size);

DEFINE_CLEANUP(struct ssl_st *, otlp_tls_free)

#endif
