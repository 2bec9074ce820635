// SPDX-License-Identifier: Apache-2.0
/*
 * A scripted gRPC server on nghttp2 for the tests: bytes in, bytes out, no sockets. mock_collector.h gives it
 * a socket.
 */
#ifndef TEST_H2_SERVER_H
#define TEST_H2_SERVER_H

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/base/buf.h"

/* How one request is answered. Zeroed: "200", "application/grpc", grpc-status 0, an empty message. */
struct h2_reply {
	const char *http_status, *content_type;
	const char *grpc_status; /* "": no grpc-status is sent */
	const char *grpc_message, *details, *pushback, *encoding;
	const void *body; /* body of the response, with its envelope; NULL: an empty message */
	size_t body_len;
	bool no_body, trailers_only;
	bool hang;	  /* never answer */
	bool reset;	  /* RST_STREAM with `error` instead of an answer */
	bool reset_after; /* RST_STREAM after a complete answer */
	uint32_t error;
	bool goaway_unprocessed; /* GOAWAY that says the request was not processed */
	bool goaway_after;	 /* GOAWAY after a complete answer */
	bool early;		 /* answer after the headers, without waiting for the body */
	bool cut;		 /* mock_collector: close the socket when the request has arrived */
};

struct h2_server {
	nghttp2_session *h2;
	struct h2_reply (*decide)(void *data, unsigned request); /* `request` counts from 0 */
	void *data;
	unsigned n_requests;
	struct h2_reply reply; /* of the current request */
	size_t sent;
	bool cut, got_reset;
	uint32_t reset_error;
	struct buf headers; /* "name: value\n" of the last request */
	struct buf body;    /* of the last request, with its envelope */
	bool manual_window; /* WINDOW_UPDATE is not sent automatically */
	nghttp2_settings_entry settings[4];
	size_t n_settings;
};

void h2_server_open(struct h2_server *s); /* the fields above are set before */
void h2_server_close(struct h2_server *s);
int h2_server_feed(struct h2_server *s, const void *data, size_t len);
size_t h2_server_take(struct h2_server *s, const uint8_t **ret);

#endif
