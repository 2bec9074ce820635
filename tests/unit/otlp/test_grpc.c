// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "h2_server.h"
#include "otlp/compress.h"
#include "otlp/grpc.h"
#include "otlp/transport.h"

struct end {
	unsigned n;
	struct grpc_result result;
};

static void on_done(void *data, struct grpc_result *result)
{
	struct end *end = data;

	end->n++;
	end->result = *result;
	result->response = (struct buf){0};
}

static struct h2_reply same_reply(void *data, unsigned request)
{
	(void)request;
	return *(struct h2_reply *)data;
}

/* Moves bytes in pieces of at most `piece` until neither side has any. True if something moved. */
static bool exchange(struct grpc_session *c, struct h2_server *s, size_t piece)
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

static struct grpc_call a_call(const void *data, size_t len)
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

/* One call against one reply. The caller ends the response. */
static struct grpc_result call_once(struct h2_reply reply, size_t piece, unsigned *ret_n)
{
	_cleanup_grpc_ struct grpc_session *c = NULL;
	struct h2_server s = {.decide = same_reply, .data = &reply};
	struct grpc_call call = a_call("message", 7);
	struct end end = {0};

	h2_server_open(&s);
	cr_assert_eq(grpc_session_new(&c), 0);
	cr_assert_eq(grpc_session_start(c, &call, on_done, &end), 0);
	exchange(c, &s, piece);
	h2_server_close(&s);
	*ret_n = end.n;
	return end.result;
}

static const struct {
	const char *name;
	struct h2_reply reply;
	enum grpc_status status;
	const char *message;
	bool unprocessed, has_delay;
	uint64_t delay_ns;
} cases[] = {
	{"success", {0}, GRPC_OK, "", false, false, 0},
	{"success without a message", {.no_body = true}, GRPC_OK, "", false, false, 0},
	{"success with an empty partial_success",
	 {.body = "\0\0\0\0\2\n\0", .body_len = 7},
	 GRPC_OK,
	 "",
	 false,
	 false,
	 0},
	{"refused in a trailer",
	 {.no_body = true, .grpc_status = "3", .grpc_message = "bad%20request%2"},
	 GRPC_INVALID_ARGUMENT,
	 "bad request%2",
	 false,
	 false,
	 0},
	{"trailers only",
	 {.trailers_only = true, .grpc_status = "12", .grpc_message = "unknown service"},
	 GRPC_UNIMPLEMENTED,
	 "unknown service",
	 false,
	 false,
	 0},
	{"no grpc-status",
	 {.grpc_status = ""},
	 GRPC_UNKNOWN,
	 "HTTP status 200 without a grpc-status",
	 false,
	 false,
	 0},
	{"broken grpc-status", {.grpc_status = "ok"}, GRPC_UNKNOWN, "", false, false, 0},
	{"unknown grpc-status", {.grpc_status = "99"}, GRPC_UNKNOWN, "", false, false, 0},
	{"a proxy's page",
	 {.http_status = "503",
	  .content_type = "text/html",
	  .grpc_status = "",
	  .body = "<html>",
	  .body_len = 6},
	 GRPC_UNAVAILABLE,
	 "HTTP status 503 with content type 'text/html' is no gRPC",
	 false,
	 false,
	 0},
	{"a page that succeeds",
	 {.content_type = "text/html", .grpc_status = "0"},
	 GRPC_UNKNOWN,
	 "HTTP status 200 with content type 'text/html' is no gRPC",
	 false,
	 false,
	 0},
	{"HTTP 404",
	 {.http_status = "404", .content_type = "text/plain", .grpc_status = "", .trailers_only = true},
	 GRPC_UNIMPLEMENTED,
	 "HTTP status 404 with content type 'text/plain' is no gRPC",
	 false,
	 false,
	 0},
	{"gRPC over another HTTP status",
	 {.http_status = "500", .grpc_status = "14"},
	 GRPC_UNAVAILABLE,
	 "",
	 false,
	 false,
	 0},
	{"short response",
	 {.body = "\0\0\0", .body_len = 3},
	 GRPC_INTERNAL,
	 "response is cut short",
	 false,
	 false,
	 0},
	{"length too large",
	 {.body = "\0\0\0\0\7ab", .body_len = 7},
	 GRPC_INTERNAL,
	 "response has a wrong length prefix",
	 false,
	 false,
	 0},
	{"two messages",
	 {.body = "\0\0\0\0\0\0\0\0\0\0", .body_len = 10},
	 GRPC_INTERNAL,
	 "response has a wrong length prefix",
	 false,
	 false,
	 0},
	{"compressed without saying how",
	 {.body = "\1\0\0\0\1x", .body_len = 6},
	 GRPC_INTERNAL,
	 "response is compressed in a way that was not offered",
	 false,
	 false,
	 0},
	{"broken gzip",
	 {.body = "\1\0\0\0\1x", .body_len = 6, .encoding = "gzip"},
	 GRPC_INTERNAL,
	 "response cannot be decompressed",
	 false,
	 false,
	 0},
	{"REFUSED_STREAM",
	 {.reset = true, .error = NGHTTP2_REFUSED_STREAM},
	 GRPC_UNAVAILABLE,
	 "stream was reset: REFUSED_STREAM",
	 true,
	 false,
	 0},
	{"CANCEL",
	 {.reset = true, .error = NGHTTP2_CANCEL},
	 GRPC_CANCELLED,
	 "stream was reset: CANCEL",
	 false,
	 false,
	 0},
	{"ENHANCE_YOUR_CALM",
	 {.reset = true, .error = NGHTTP2_ENHANCE_YOUR_CALM},
	 GRPC_RESOURCE_EXHAUSTED,
	 "stream was reset: ENHANCE_YOUR_CALM",
	 false,
	 false,
	 0},
	{"INADEQUATE_SECURITY",
	 {.reset = true, .error = NGHTTP2_INADEQUATE_SECURITY},
	 GRPC_PERMISSION_DENIED,
	 "stream was reset: INADEQUATE_SECURITY",
	 false,
	 false,
	 0},
	{"INTERNAL_ERROR",
	 {.reset = true, .error = NGHTTP2_INTERNAL_ERROR},
	 GRPC_INTERNAL,
	 "stream was reset: INTERNAL_ERROR",
	 false,
	 false,
	 0},
	{"NO_ERROR without an answer",
	 {.reset = true, .error = NGHTTP2_NO_ERROR},
	 GRPC_INTERNAL,
	 "stream was reset: NO_ERROR",
	 false,
	 false,
	 0},
	{"NO_ERROR behind an answer",
	 {.reset_after = true, .error = NGHTTP2_NO_ERROR},
	 GRPC_OK,
	 "",
	 false,
	 false,
	 0},
	{"GOAWAY before it was looked at",
	 {.goaway_unprocessed = true},
	 GRPC_UNAVAILABLE,
	 "the server ends the connection and has not processed the request",
	 true,
	 false,
	 0},
	{"GOAWAY with too many pings",
	 {.goaway_unprocessed = true, .error = NGHTTP2_ENHANCE_YOUR_CALM},
	 GRPC_UNAVAILABLE,
	 "the server ends the connection and has not processed the request",
	 true,
	 false,
	 0},
	{"GOAWAY behind an answer", {.goaway_after = true}, GRPC_OK, "", false, false, 0},
	{"pushback",
	 {.trailers_only = true, .grpc_status = "14", .pushback = "1500"},
	 GRPC_UNAVAILABLE,
	 "",
	 false,
	 true,
	 1500000000},
	{"negative pushback",
	 {.trailers_only = true, .grpc_status = "14", .pushback = "-1"},
	 GRPC_UNAVAILABLE,
	 "",
	 false,
	 false,
	 0},
	{"an answer before the request is read",
	 {.early = true, .trailers_only = true, .grpc_status = "8", .grpc_message = "larger than max"},
	 GRPC_RESOURCE_EXHAUSTED,
	 "larger than max",
	 false,
	 false,
	 0},
};

Test(grpc, replies)
{
	static const size_t pieces[] = {1, 3, 16384};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		for (size_t p = 0; p < sizeof pieces / sizeof pieces[0]; p++) {
			unsigned n;
			struct grpc_result r = call_once(cases[i].reply, pieces[p], &n);

			cr_assert_eq(n, 1, "%s: ended %u times", cases[i].name, n);
			cr_expect_eq(r.status, cases[i].status, "%s: %s", cases[i].name,
				     grpc_status_name(r.status));
			cr_expect_str_eq(r.message, cases[i].message, "%s: '%s'", cases[i].name, r.message);
			cr_expect_eq(r.unprocessed, cases[i].unprocessed, "%s", cases[i].name);
			cr_expect_eq(r.has_delay, cases[i].has_delay, "%s", cases[i].name);
			cr_expect_eq(r.delay_ns, cases[i].delay_ns, "%s", cases[i].name);
			buf_fini(&r.response);
		}
	}
}

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

Test(grpc, compressed_response)
{
	_cleanup_buf_ struct buf body = {0}, packed = {0};
	unsigned n;

	cr_assert_eq(otlp_compress(OTLP_GZIP, "\n\0", 2, &packed), 0);
	buf_append(&body, (uint8_t[]){1, 0, 0, 0, (uint8_t)packed.len}, 5);
	buf_append(&body, packed.data, packed.len);
	struct grpc_result r = call_once(
		(struct h2_reply){.body = body.data, .body_len = body.len, .encoding = "gzip"}, 2, &n);
	cr_expect_eq(r.status, GRPC_OK);
	cr_assert_eq(r.response.len, 2);
	cr_expect_arr_eq(r.response.data, "\n\0", 2);
	buf_fini(&r.response);
}

/* A few bytes that unfold to more than a response may have. */
Test(grpc, response_bomb)
{
	_cleanup_free_ char *zeros = calloc(1, 64 << 20);
	_cleanup_buf_ struct buf body = {0}, packed = {0};
	unsigned n;

	cr_assert_eq(otlp_compress(OTLP_GZIP, zeros, 64 << 20, &packed), 0);
	for (int i = 24, first = 1; i >= 0; i -= 8, first = 0) {
		if (first)
			buf_putc(&body, 1);
		buf_putc(&body, (char)(packed.len >> i));
	}
	buf_append(&body, packed.data, packed.len);
	struct grpc_result r = call_once(
		(struct h2_reply){.body = body.data, .body_len = body.len, .encoding = "gzip"}, 16384, &n);
	cr_expect_eq(r.status, GRPC_RESOURCE_EXHAUSTED);
	buf_fini(&r.response);
}

Test(grpc, response_too_large)
{
	size_t len = (4 << 20) + 6;
	_cleanup_free_ char *zeros = calloc(1, len);
	unsigned n;
	struct grpc_result r = call_once((struct h2_reply){.body = zeros, .body_len = len}, 16384, &n);

	cr_assert_eq(n, 1);
	cr_expect_eq(r.status, GRPC_RESOURCE_EXHAUSTED);
	cr_expect_str_eq(r.message, "response is larger than 4 MiB");
	buf_fini(&r.response);
}

/* The window opens by a few bytes at a time; in between there is nothing to send and nothing to do. */
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
	exchange(c, &s, 16384); /* its SETTINGS first */
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

/* A call that waits for a stream which the server never grants, then a GOAWAY: repeat it elsewhere. */
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

/* Between calls the session answers PING and SETTINGS and asks for nothing itself. */
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
