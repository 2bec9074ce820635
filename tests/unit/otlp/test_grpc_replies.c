// SPDX-License-Identifier: Apache-2.0
/* One call against one scripted reply, in pieces of several sizes: tests how it ends. */
#include <stdlib.h>

#include "grpc_support.h"
#include "otlp/compress.h"

/* Makes one call against one reply. The caller frees the response. */
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

/* A few bytes that decompress to more than a response may have. */
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
