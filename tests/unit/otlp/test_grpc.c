// SPDX-License-Identifier: Apache-2.0
/* Tests the life of a session: requests, flow control, cancelling, connections that end. */
#include <errno.h>
#include <stdlib.h>

#include "grpc_support.h"

Test(grpc, request_headers_and_body)
{
	_cleanup_grpc_ struct grpc_session *c = NULL;
	struct h2_reply reply = {0};
	struct h2_server s = {.decide = same_reply, .data = &reply};
	const struct otlp_header user[] = {{"Authorization", "Bearer abc"}};
	struct otlp_headers headers;
	struct grpc_call call = a_call("message", 7);
	struct end end = {0};

	cr_assert_eq(otlp_headers_copy(user, 1, &headers, NULL), 0);
	call.headers = &headers;
	h2_server_open(&s);
	cr_assert_eq(grpc_session_new(&c), 0);
	cr_assert_eq(grpc_session_start(c, &call, on_done, &end), 0);
	cr_expect_eq(grpc_session_start(c, &call, on_done, &end), -EBUSY);
	exchange(c, &s, 16384);
	cr_assert_eq(end.n, 1);
	cr_expect_str_eq(
		buf_str(&s.headers),
		":method: POST\n:scheme: http\n"
		":path: /opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export\n"
		":authority: 127.0.0.1:4317\nte: trailers\ncontent-type: application/grpc\n"
		"user-agent: proflet/test\ngrpc-accept-encoding: gzip,zstd,identity\ngrpc-encoding: gzip\n"
		"grpc-timeout: 10000m\nauthorization: Bearer abc (never indexed)\n");
	cr_assert_eq(s.body.len, 12);
	cr_expect_arr_eq(s.body.data, "\1\0\0\0\7message", 12);
	buf_fini(&end.result.response);
	otlp_headers_fini(&headers);
	h2_server_close(&s);
}

/* The window opens by a few bytes at a time; in between there is nothing to send. */
Test(grpc, dripping_window)
{
	_cleanup_grpc_ struct grpc_session *c = NULL;
	size_t len = 200000, rounds = 0;
	_cleanup_free_ char *data = malloc(len);
	struct h2_reply reply = {0};
	struct h2_server s = {
		.decide = same_reply,
		.data = &reply,
		.manual_window = true,
		.settings = {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 10},
			     {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, 16384}},
		.n_settings = 2,
	};
	struct grpc_call call = a_call(data, len);
	struct end end = {0};

	for (size_t i = 0; i < len; i++)
		data[i] = (char)i;
	h2_server_open(&s);
	cr_assert_eq(grpc_session_new(&c), 0);
	exchange(c, &s, 16384); /* its SETTINGS come first */
	cr_assert_eq(grpc_session_start(c, &call, on_done, &end), 0);
	while (exchange(c, &s, 1000) && !end.n) {
		const uint8_t *none;
		size_t n_bytes;

		cr_assert_eq(grpc_session_take(c, &none, &n_bytes), 0);
		cr_assert_eq(n_bytes, 0, "nothing may be sent into a closed window");
		nghttp2_submit_window_update(s.h2, 0, 1, 997);
		nghttp2_submit_window_update(s.h2, 0, 0, 997);
		rounds++;
	}
	cr_assert_eq(end.n, 1);
	cr_expect_eq(end.result.status, GRPC_OK);
	cr_expect_gt(rounds, 100);
	cr_assert_eq(s.body.len, len + 5);
	cr_expect_arr_eq(s.body.data + 5, data, len);
	buf_fini(&end.result.response);
	h2_server_close(&s);
}

Test(grpc, cancel_and_next_call)
{
	_cleanup_grpc_ struct grpc_session *c = NULL;
	struct h2_reply reply = {.hang = true};
	struct h2_server s = {.decide = same_reply, .data = &reply};
	struct grpc_call call = a_call("message", 7);
	struct end end = {0};

	h2_server_open(&s);
	cr_assert_eq(grpc_session_new(&c), 0);
	cr_assert_eq(grpc_session_start(c, &call, on_done, &end), 0);
	exchange(c, &s, 16384);
	cr_expect(grpc_session_busy(c));
	grpc_session_cancel(c, GRPC_DEADLINE_EXCEEDED, "no answer in time");
	cr_assert_eq(end.n, 1);
	cr_expect_eq(end.result.status, GRPC_DEADLINE_EXCEEDED);
	cr_expect_not(grpc_session_busy(c));
	exchange(c, &s, 16384);
	cr_expect(s.got_reset);
	cr_expect_eq(s.reset_error, NGHTTP2_CANCEL);
	reply.hang = false;
	cr_assert(grpc_session_usable(c));
	cr_assert_eq(grpc_session_start(c, &call, on_done, &end), 0);
	exchange(c, &s, 16384);
	cr_assert_eq(end.n, 2);
	cr_expect_eq(end.result.status, GRPC_OK);
	buf_fini(&end.result.response);
	h2_server_close(&s);
}

Test(grpc, lost_connection)
{
	_cleanup_grpc_ struct grpc_session *c = NULL;
	struct grpc_call call = a_call("message", 7);
	struct end end = {0};

	cr_assert_eq(grpc_session_new(&c), 0);
	cr_assert_eq(grpc_session_start(c, &call, on_done, &end), 0);
	grpc_session_lost(c, "the connection was lost");
	grpc_session_lost(c, "twice");
	cr_assert_eq(end.n, 1);
	cr_expect_eq(end.result.status, GRPC_UNAVAILABLE);
	cr_expect_str_eq(end.result.message, "the connection was lost");
	cr_expect_eq(end.result.http_status, 0);
}

/*
 * A call waits for a stream that the server never grants, then GOAWAY arrives: repeat it on
 * another connection.
 */
Test(grpc, goaway_while_waiting_for_a_stream)
{
	_cleanup_grpc_ struct grpc_session *c = NULL;
	struct h2_reply reply = {0};
	struct h2_server s = {
		.decide = same_reply,
		.data = &reply,
		.settings = {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 0}},
		.n_settings = 1,
	};
	struct grpc_call call = a_call("message", 7);
	struct end end = {0};

	h2_server_open(&s);
	cr_assert_eq(grpc_session_new(&c), 0);
	exchange(c, &s, 16384);
	cr_assert_eq(grpc_session_start(c, &call, on_done, &end), 0);
	exchange(c, &s, 16384);
	cr_assert_eq(end.n, 0);
	nghttp2_submit_goaway(s.h2, 0, 0, NGHTTP2_NO_ERROR, NULL, 0);
	exchange(c, &s, 16384);
	cr_assert_eq(end.n, 1);
	cr_expect_eq(end.result.status, GRPC_UNAVAILABLE);
	cr_expect(end.result.unprocessed);
	cr_expect_not(grpc_session_usable(c));
	cr_expect_eq(grpc_session_start(c, &call, on_done, &end), -ENOTCONN);
	h2_server_close(&s);
}

/* Between calls the session answers PING and SETTINGS and sends no requests of its own. */
Test(grpc, idle_connection)
{
	_cleanup_grpc_ struct grpc_session *c = NULL;
	struct h2_reply reply = {0};
	struct h2_server s = {.decide = same_reply, .data = &reply};
	const nghttp2_settings_entry changed[] = {{NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, 0},
						  {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, 1 << 20}};

	h2_server_open(&s);
	cr_assert_eq(grpc_session_new(&c), 0);
	exchange(c, &s, 16384);
	cr_expect_not(exchange(c, &s, 16384), "an idle session must be silent");
	nghttp2_submit_ping(s.h2, 0, (const uint8_t *)"12345678");
	nghttp2_submit_settings(s.h2, 0, changed, 2);
	cr_expect(exchange(c, &s, 1));
	cr_expect_eq(nghttp2_session_get_remote_settings(s.h2, NGHTTP2_SETTINGS_ENABLE_PUSH), 0);
	cr_expect_not(nghttp2_session_want_write(s.h2));
	cr_expect_not(grpc_session_ended(c));
	cr_expect(grpc_session_usable(c));
	h2_server_close(&s);
}

Test(grpc, not_http2)
{
	static const char text[] =
		"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n\r\nhello, this is no HTTP/2";
	_cleanup_grpc_ struct grpc_session *c = NULL;
	struct grpc_call call = a_call("message", 7);
	struct end end = {0};
	const uint8_t *out;
	size_t len;

	cr_assert_eq(grpc_session_new(&c), 0);
	cr_assert_eq(grpc_session_start(c, &call, on_done, &end), 0);
	cr_assert_eq(grpc_session_take(c, &out, &len), 0);
	(void)grpc_session_feed(c, text, sizeof text - 1);
	do
		cr_assert_eq(grpc_session_take(c, &out, &len), 0);
	while (len);
	cr_expect(grpc_session_ended(c));
	grpc_session_lost(c, "the server ended the connection");
	cr_assert_eq(end.n, 1);
	cr_expect_eq(end.result.status, GRPC_UNAVAILABLE);
}
