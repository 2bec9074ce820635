// SPDX-License-Identifier: Apache-2.0
#include "otlp/transport.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "otlp/conn.h"
#include "otlp/wait.h"

#define READ_CHUNK 16384 /* no smaller than a TLS record, so that poll sees all that is unread */
/*
 * A server may send faster than it is read, so no loop reads until there is no more. Whoever calls pump looks
 * at the deadline and the cancel descriptor again after so many bytes.
 */
#define PUMP_MAX (16 * READ_CHUNK)
/* The server's bytes that are read for a call, twice the largest response, and between two calls. */
#define CALL_READ_MAX (2 * GRPC_RESPONSE_MAX)
#define IDLE_READ_MAX (64u << 10)
#define PUMP_COST 16u /* that a pump counts for, because TLS may take many bytes and give none */

static const char endless_text[] = "the server sends data without end, and no answer";

struct otlp_transport {
	struct otlp_transport_options opt;
	struct otlp_conn *conn;	 /* NULL: not connected */
	struct grpc_session *h2; /* the session on `conn` */
	const uint8_t *out;	 /* bytes of the session that are not sent yet */
	size_t out_len;
	bool kept;		 /* the connection has carried a call before */
	size_t n_read, read_max; /* bytes that arrived in this call, or since the last one, and their limit */

	struct grpc_result result; /* of the running call */
	bool done;
};

int otlp_transport_new(struct otlp_transport **ret, const struct otlp_transport_options *opt)
{
	struct otlp_transport *t = calloc(1, sizeof *t);

	if (!t)
		return -ENOMEM;
	t->opt = *opt;
	*ret = t;
	return 0;
}

void otlp_transport_disconnect(struct otlp_transport *t)
{
	grpc_session_free(t->h2);
	otlp_conn_free(t->conn);
	t->h2 = NULL;
	t->conn = NULL;
	t->out = NULL;
	t->out_len = 0;
	t->kept = false;
	t->n_read = 0;
}

void otlp_transport_free(struct otlp_transport *t)
{
	if (!t)
		return;
	otlp_transport_disconnect(t);
	free(t);
}

/* Sends until the socket accepts no more or the session has no more. 0, or the error of the connection. */
static int send_some(struct otlp_transport *t)
{
	size_t n;
	int r;

	for (;;) {
		if (!t->out_len) {
			r = grpc_session_take(t->h2, &t->out, &t->out_len);
			if (r < 0 || !t->out_len)
				return r;
		}
		r = otlp_conn_write(t->conn, t->out, t->out_len, &n);
		if (r < 0)
			return r == -EAGAIN ? 0 : r;
		t->out += n;
		t->out_len -= n;
	}
}

/* 0, -EMSGSIZE: more than read_max, or the error of the connection or the session. */
static int receive_some(struct otlp_transport *t)
{
	uint8_t bytes[READ_CHUNK];
	size_t n;
	int r;

	for (size_t got = 0; got < PUMP_MAX; got += n) {
		if (t->n_read > t->read_max)
			return -EMSGSIZE;
		r = otlp_conn_read(t->conn, bytes, sizeof bytes, &n);
		if (r < 0)
			return r == -EAGAIN ? 0 : r;
		t->n_read += n;
		r = grpc_session_feed(t->h2, bytes, n);
		if (r < 0)
			return r;
	}
	return 0;
}

/*
 * Moves some bytes in both directions: sends first, because sending may fill a window; sends again after
 * receiving, because what arrived may need an acknowledgement. 0, or an error after which the connection is
 * of no use.
 */
static int pump(struct otlp_transport *t)
{
	int sent, r;

	t->n_read += PUMP_COST;
	sent = send_some(t);
	/* Even after a failed send: the server may have sent the reason before it closed. */
	r = receive_some(t);
	if (r >= 0 && sent >= 0)
		r = send_some(t);
	if (r < 0 || sent < 0)
		return r < 0 ? r : sent;
	return grpc_session_ended(t->h2) ? -ENOTCONN : 0;
}

/* The bytes that arrive from now on count anew. */
static void limit_reading(struct otlp_transport *t, size_t max)
{
	t->n_read = 0;
	t->read_max = max;
}

static void on_done(void *data, struct grpc_result *result)
{
	struct otlp_transport *t = data;

	t->result = *result;
	result->response = (struct buf){0};
	t->done = true;
}

static int connect_now(struct otlp_transport *t, uint64_t deadline, int cancel_fd)
{
	int r;

	if (t->conn)
		return 0;
	r = otlp_conn_open(&t->conn, t->opt.endpoint, t->opt.proxy, t->opt.tls, deadline, cancel_fd,
			   t->result.message, sizeof t->result.message);
	if (r < 0)
		return r;
	r = grpc_session_new(&t->h2);
	if (r < 0)
		otlp_transport_disconnect(t);
	return r;
}

/* Ends the running call after an error of pump. */
static void end_call(struct otlp_transport *t, int error)
{
	if (error == -EMSGSIZE) {
		grpc_session_lost(t->h2, endless_text);
		t->result.failure = OTLP_FAILURE_FLOOD;
		return;
	}
	grpc_session_lost(t->h2,
			  error == -ENOTCONN ? "the server ended the connection" : otlp_conn_lost(t->conn));
	t->result.failure = OTLP_FAILURE_LOST;
	t->result.unprocessed |= t->kept;
}

/* Runs the started call until it ends. */
static int run_call(struct otlp_transport *t, uint64_t deadline, int cancel_fd)
{
	int r = 0, ended = 0;

	while (!t->done) {
		ended = pump(t);
		if (t->done)
			break;
		if (ended < 0) {
			end_call(t, ended);
			break;
		}
		r = otlp_wait_fd(otlp_conn_fd(t->conn), otlp_conn_events(t->conn, t->out_len > 0), deadline,
				 cancel_fd);
		if (r >= 0)
			continue;
		if (r == -ETIMEDOUT) { /* the answer may be there, and only this thread is late */
			ended = pump(t);
			if (t->done)
				break;
		}
		grpc_session_cancel(t->h2, r == -ETIMEDOUT ? GRPC_DEADLINE_EXCEEDED : GRPC_CANCELLED,
				    r == -ETIMEDOUT ? "no answer in time" : "stopped");
		t->result.failure = OTLP_FAILURE_TIMEOUT;
		(void)send_some(t);
		break;
	}
	if (!t->result.http_status && t->result.failure == OTLP_FAILURE_ANSWER)
		t->result.failure = OTLP_FAILURE_LOST; /* the stream was reset, or HTTP/2 violated */
	t->kept = true;
	limit_reading(t, IDLE_READ_MAX);
	/* A server that did not answer gets no second call on this connection. */
	if (ended < 0 || r < 0 || !grpc_session_usable(t->h2))
		otlp_transport_disconnect(t);
	return r == -ECANCELED ? r : 0;
}

/* What is left of the time, at least a millisecond, which is the least that a call can announce. */
static uint64_t time_left(uint64_t deadline)
{
	uint64_t now = clock_mono_ns();

	return deadline > now + NS_PER_MS ? deadline - now : NS_PER_MS;
}

int otlp_transport_call(struct otlp_transport *t, const void *data, size_t len, enum otlp_coding coding,
			uint64_t deadline_mono_ns, int cancel_fd, struct grpc_result *ret)
{
	const struct otlp_endpoint *e = t->opt.endpoint;
	struct grpc_call call = {
		.scheme = e->tls ? "https" : "http",
		.authority = e->authority,
		.path = OTLP_GRPC_PATH,
		.user_agent = t->opt.user_agent,
		.headers = t->opt.headers,
		.coding = coding,
		.data = data,
		.len = len,
	};
	int r;

	t->result = (struct grpc_result){.status = GRPC_UNAVAILABLE};
	t->done = false;
	if (t->conn && (pump(t) < 0 || !grpc_session_usable(t->h2)))
		otlp_transport_disconnect(t);
	r = connect_now(t, deadline_mono_ns, cancel_fd);
	if (r >= 0) {
		limit_reading(t, CALL_READ_MAX);
		call.timeout_ns = time_left(deadline_mono_ns);
		r = grpc_session_start(t->h2, &call, on_done, t);
		if (r < 0)
			otlp_transport_disconnect(t);
		else
			r = run_call(t, deadline_mono_ns, cancel_fd);
	} else
		t->result.failure = r == -ETIMEDOUT ? OTLP_FAILURE_TIMEOUT : OTLP_FAILURE_CONNECT;
	*ret = t->result;
	t->result = (struct grpc_result){0};
	return r == -ECANCELED || r == -ENOMEM || r == -E2BIG ? r : 0;
}

int otlp_transport_fd(const struct otlp_transport *t, short *ret_events)
{
	if (!t->conn)
		return -1;
	*ret_events = otlp_conn_events(t->conn, t->out_len > 0);
	return otlp_conn_fd(t->conn);
}

void otlp_transport_idle(struct otlp_transport *t)
{
	if (t->conn && (pump(t) < 0 || !grpc_session_usable(t->h2)))
		otlp_transport_disconnect(t);
}
