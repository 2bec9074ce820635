// SPDX-License-Identifier: Apache-2.0
/*
 * The client side of gRPC (grpc PROTOCOL-HTTP2) on nghttp2, without sockets: the caller feeds in the bytes
 * that arrived, and takes out the bytes to send. One unary call at a time, one session per connection. Rank 1
 * (otlp).
 *
 * Nothing is polled: when the server's window is used up, there is nothing to take until bytes are fed, so a
 * caller that waits for the socket cannot spin. The session answers SETTINGS and PING. It sends no pings,
 * because servers close the connection for them (ENHANCE_YOUR_CALM "too_many_pings").
 */
#ifndef PROFLET_OTLP_GRPC_H
#define PROFLET_OTLP_GRPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "otlp/headers.h"
#include "otlp/request.h"
#include "otlp/response.h"

#define GRPC_RESPONSE_MAX (4u << 20) /* bytes of a response message, also after decompression */

/* The result of one call. */
struct grpc_result {
	enum grpc_status status;
	unsigned http_status; /* 0: no response headers arrived */
	bool unprocessed;     /* the server says that it did nothing: repeat at once, on another connection */
	bool unanswered;      /* the server may have the whole request, but did not answer */
	enum otlp_failure failure; /* unless OK; set by whoever owns the connection */
	bool has_delay;
	uint64_t delay_ns; /* RetryInfo or grpc-retry-pushback-ms */
	unsigned codings;  /* grpc-accept-encoding, see otlp_codings_parse; 0: the server sent none */
	char message[OTLP_TEXT_MAX]; /* the server's text, or ours when it sent none */
	struct buf response;	     /* the decoded message of a call that ended with GRPC_OK */
};

struct grpc_session;

/* Everything is borrowed until the call is done. */
struct grpc_call {
	const char *scheme, *authority, *path, *user_agent;
	const struct otlp_headers *headers; /* NULL: none */
	uint64_t timeout_ns;		    /* sent to the server; 0: none. The caller enforces it */
	enum otlp_coding coding;	    /* of `data` */
	const void *data;		    /* one message */
	size_t len;
};

/*
 * Called once per call, during feed, take, cancel or lost. The session owns the result, but the callee may
 * move `response` out. The callee may not free the session.
 */
typedef void (*grpc_done_fn)(void *data, struct grpc_result *result);

int grpc_session_new(struct grpc_session **ret); /* 0, -ENOMEM */
void grpc_session_free(struct grpc_session *s);	 /* the callback of a running call is not called */

/*
 * Starts a call. 0, -EBUSY (a call is running), -ENOTCONN (the server accepts no more calls on this
 * connection), -ENOMEM.
 */
int grpc_session_start(struct grpc_session *s, const struct grpc_call *call, grpc_done_fn done, void *data);
/*
 * Processes bytes from the server. 0; -EPROTO: the peer violates HTTP/2, so take what is left (a GOAWAY),
 * then close.
 */
int grpc_session_feed(struct grpc_session *s, const void *data, size_t len);
/*
 * 0 and the bytes to send, borrowed until the next call of any of these functions; *ret_len is 0 when there
 * are none. -ENOMEM.
 */
int grpc_session_take(struct grpc_session *s, const uint8_t **ret, size_t *ret_len);

/* Ends the running call, if any, with this status and text, and resets its stream. */
void grpc_session_cancel(struct grpc_session *s, enum grpc_status status, const char *text);
/* The connection is lost: ends the running call, if any, as UNAVAILABLE with this text. */
void grpc_session_lost(struct grpc_session *s, const char *text);

bool grpc_session_busy(const struct grpc_session *s);	/* a call is running */
bool grpc_session_usable(const struct grpc_session *s); /* another call may be started after this one */
/* There is nothing more to read or send: close the connection. */
bool grpc_session_ended(const struct grpc_session *s);

DEFINE_CLEANUP(struct grpc_session *, grpc_session_free)
#define _cleanup_grpc_ _cleanup_(grpc_session_free_p)

#endif
