// SPDX-License-Identifier: Apache-2.0
/*
 * A call ends exactly once, by the first of these: END_STREAM from the server; its RST_STREAM or GOAWAY
 * (nghttp2 reports both as a closed stream); our own cancel; the loss of the connection. finish() reports the
 * end and forgets the call; whatever arrives for its stream later is ignored.
 */
#include "otlp/grpc.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nghttp2/nghttp2.h>

#include "agent/base/clock.h"
#include "otlp/compress.h"

#define GRPC_PREFIX_BYTES 5    /* compressed flag and big-endian length before a message */
#define CONTENT_TYPE_SHOWN 100 /* maximum length of a content-type quoted in an error */
#define FIXED_HEADERS 10
#define HEADER_LIST_MAX 65536 /* bytes, announced to the server */

/* --- the answer, without nghttp2 */

/* A server's answer to one call, collected from headers, data and trailers, and the result of the call. */
struct answer {
	bool is_grpc; /* its content-type is that of gRPC */
	bool has_status;
	enum grpc_status status;
	enum otlp_coding coding; /* of the response message */
	char content_type[OTLP_TEXT_MAX];
	struct buf body; /* the message with its prefix */
	struct grpc_result result;
};

static void answer_init(struct answer *a)
{
	*a = (struct answer){0};
	buf_init(&a->body, GRPC_RESPONSE_MAX + GRPC_PREFIX_BYTES);
}

static void answer_fini(struct answer *a)
{
	buf_fini(&a->body);
	buf_fini(&a->result.response);
}

/*
 * The call ended otherwise: fills in the result with this status, and with this text unless the server
 * sent one.
 */
__attribute__((format(printf, 3, 4))) static void answer_fail(struct answer *a, enum grpc_status status,
							      const char *format, ...)
{
	va_list ap;

	a->result.status = status;
	if (a->result.message[0])
		return; /* the server's own text says more */
	va_start(ap, format);
	vsnprintf(a->result.message, sizeof a->result.message, format, ap);
	va_end(ap);
}

/* Adds data. 0; -EOVERFLOW: the response is larger than GRPC_RESPONSE_MAX allows; -ENOMEM. */
static int answer_data(struct answer *a, const void *data, size_t len)
{
	return buf_append(&a->body, data, len);
}

/*
 * Takes the one message of the response out of its envelope. An OK without any message counts as an
 * empty message.
 */
static void open_response(struct answer *a)
{
	const uint8_t *p = a->body.data;
	struct buf *out = &a->result.response;
	uint32_t len;
	int r;

	a->result.status = GRPC_OK;
	if (!a->body.len)
		return;
	if (a->body.len < GRPC_PREFIX_BYTES) {
		answer_fail(a, GRPC_INTERNAL, "response is cut short");
		return;
	}
	len = (uint32_t)p[1] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 8 | p[4];
	if (len != a->body.len - GRPC_PREFIX_BYTES || p[0] > 1) {
		answer_fail(a, GRPC_INTERNAL, "response has a wrong length prefix");
		return;
	}
	if (p[0] && a->coding == OTLP_IDENTITY) {
		answer_fail(a, GRPC_INTERNAL, "response is compressed in a way that was not offered");
		return;
	}
	buf_init(out, GRPC_RESPONSE_MAX);
	p += GRPC_PREFIX_BYTES;
	r = a->body.data[0] ? otlp_decompress(a->coding, p, len, out) : buf_append(out, p, len);
	if (r < 0)
		answer_fail(a, r == -EBADMSG ? GRPC_INTERNAL : GRPC_RESOURCE_EXHAUSTED,
			    "response cannot be decompressed");
}

/* The answer is complete: fills in the result. */
static void answer_conclude(struct answer *a)
{
	unsigned http = a->result.http_status;

	if (!a->is_grpc)
		answer_fail(a, grpc_status_from_http(http),
			    "HTTP status %u with content type '%s' is no gRPC", http, a->content_type);
	else if (!a->has_status)
		answer_fail(a, http == 200 ? GRPC_UNKNOWN : grpc_status_from_http(http),
			    "HTTP status %u without a grpc-status", http);
	else if (a->status != GRPC_OK)
		answer_fail(a, a->status, "%s", "");
	else
		open_response(a);
}

static void take_details(struct answer *a, const char *value, size_t len)
{
	struct otlp_status_details details;
	uint8_t bytes[OTLP_DETAILS_MAX];
	size_t n;

	if (base64_decode(value, len, bytes, sizeof bytes, &n) < 0 ||
	    otlp_status_parse(bytes, n, &details) < 0)
		return; /* decides nothing: grpc-status does */
	if (!a->result.message[0])
		memcpy(a->result.message, details.message, sizeof details.message);
	if (details.has_delay) {
		a->result.has_delay = true;
		a->result.delay_ns = details.delay_ns;
	}
}

static void take_content_type(struct answer *a, const char *value, size_t len)
{
	static const char type[] = "application/grpc";
	size_t n = sizeof type - 1;

	a->is_grpc = len >= n && !memcmp(value, type, n) && (len == n || value[n] == '+' || value[n] == ';');
	otlp_text_copy(value, len < CONTENT_TYPE_SHOWN ? len : CONTENT_TYPE_SHOWN, a->content_type);
}

static void take_http_status(struct answer *a, const char *value, size_t len)
{
	a->result.http_status = 0;
	for (size_t i = 0; i < len && i < 3; i++) /* nghttp2 accepts only three digits */
		a->result.http_status = a->result.http_status * 10 + (unsigned)(value[i] - '0');
}

static bool is_name(const char *name, size_t len, const char *wanted)
{
	return len == strlen(wanted) && !memcmp(name, wanted, len);
}

/*
 * Adds a header or trailer. Unknown and malformed ones are ignored, except a malformed grpc-status, which
 * becomes GRPC_UNKNOWN.
 */
static void answer_header(struct answer *a, const char *name, size_t name_len, const char *value, size_t len)
{
	if (is_name(name, name_len, ":status")) {
		take_http_status(a, value, len);
	} else if (is_name(name, name_len, "content-type")) {
		take_content_type(a, value, len);
	} else if (is_name(name, name_len, "grpc-encoding")) {
		if (otlp_coding_parse(value, len, &a->coding) < 0)
			a->coding = OTLP_IDENTITY;
	} else if (is_name(name, name_len, "grpc-accept-encoding")) {
		a->result.codings |= otlp_codings_parse(value, len);
	} else if (is_name(name, name_len, "grpc-status")) {
		a->has_status = true;
		if (grpc_status_parse(value, len, &a->status) < 0)
			a->status = GRPC_UNKNOWN;
	} else if (is_name(name, name_len, "grpc-message")) {
		grpc_message_decode(value, len, a->result.message);
	} else if (is_name(name, name_len, "grpc-status-details-bin")) {
		take_details(a, value, len);
	} else if (is_name(name, name_len, "grpc-retry-pushback-ms") && !a->result.has_delay) {
		a->result.has_delay = grpc_pushback_parse(value, len, &a->result.delay_ns);
	}
}

/* --- the session */

struct call {
	int32_t stream; /* 0: no call */
	uint8_t prefix[GRPC_PREFIX_BYTES];
	const uint8_t *data;
	size_t len, sent; /* `sent` includes the prefix */
	grpc_done_fn done;
	void *done_data;
	struct answer answer;
};

struct grpc_session {
	nghttp2_session *h2;
	struct call call;
	bool broken;
};

static void call_forget(struct call *c)
{
	answer_fini(&c->answer);
	*c = (struct call){0};
}

static void finish(struct grpc_session *s)
{
	struct call c = s->call;

	s->call = (struct call){0};
	c.done(c.done_data, &c.answer.result);
	call_forget(&c);
}

/* Ends a call that got no answer. The server may have taken the request if all of it was sent. */
static void mark_unanswered(struct call *c)
{
	c->answer.result.unanswered = c->sent == GRPC_PREFIX_BYTES + c->len && !c->answer.result.unprocessed;
}

/* The server ended the stream properly, so its status decides. */
static void finish_answered(struct grpc_session *s)
{
	answer_conclude(&s->call.answer);
	finish(s);
}

static void finish_reset(struct grpc_session *s, uint32_t error)
{
	struct answer *a = &s->call.answer;

	if (error == NGHTTP2_NO_ERROR && a->has_status && a->is_grpc) {
		finish_answered(s);
		return;
	}
	a->result.unprocessed = error == NGHTTP2_REFUSED_STREAM;
	mark_unanswered(&s->call);
	answer_fail(a, grpc_status_from_h2(error), "stream was reset: %s", nghttp2_http2_strerror(error));
	finish(s);
}

static int on_header(nghttp2_session *h2, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
		     const uint8_t *value, size_t len, uint8_t flags, void *data)
{
	struct grpc_session *s = data;

	(void)h2;
	(void)flags;
	if (s->call.stream && frame->hd.stream_id == s->call.stream)
		answer_header(&s->call.answer, (const char *)name, name_len, (const char *)value, len);
	return 0;
}

static int on_data(nghttp2_session *h2, uint8_t flags, int32_t stream, const uint8_t *bytes, size_t len,
		   void *data)
{
	struct grpc_session *s = data;

	(void)h2;
	(void)flags;
	if (!s->call.stream || stream != s->call.stream)
		return 0;
	if (answer_data(&s->call.answer, bytes, len) < 0) {
		s->call.answer.result.message[0] = '\0';
		grpc_session_cancel(s, GRPC_RESOURCE_EXHAUSTED, "response is larger than 4 MiB");
	}
	return 0;
}

/*
 * After GOAWAY, a request that still waits for a free stream is never sent, and its stream is never closed.
 */
static void take_goaway(struct grpc_session *s, int32_t last_processed)
{
	struct call *c = &s->call;

	if (!c->stream || (c->stream <= last_processed && nghttp2_session_find_stream(s->h2, c->stream)))
		return;
	c->answer.result.unprocessed = true;
	answer_fail(&c->answer, GRPC_UNAVAILABLE,
		    "the server ends the connection and has not processed the request");
	finish(s);
}

static int on_frame(nghttp2_session *h2, const nghttp2_frame *frame, void *data)
{
	struct grpc_session *s = data;
	struct call *c = &s->call;

	if (frame->hd.type == NGHTTP2_GOAWAY)
		take_goaway(s, frame->goaway.last_stream_id);
	if (!c->stream || frame->hd.stream_id != c->stream || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
		return 0;
	if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
		return 0;
	if (c->sent <
	    GRPC_PREFIX_BYTES + c->len) /* the server decided before it had read the whole request */
		nghttp2_submit_rst_stream(h2, NGHTTP2_FLAG_NONE, c->stream, NGHTTP2_CANCEL);
	finish_answered(s);
	return 0;
}

static int on_close(nghttp2_session *h2, int32_t stream, uint32_t error, void *data)
{
	struct grpc_session *s = data;

	(void)h2;
	if (s->call.stream && stream == s->call.stream)
		finish_reset(s, error);
	return 0;
}

static int on_not_sent(nghttp2_session *h2, const nghttp2_frame *frame, int error, void *data)
{
	struct grpc_session *s = data;

	(void)h2;
	if (frame->hd.type != NGHTTP2_HEADERS || !s->call.stream || frame->hd.stream_id != s->call.stream)
		return 0;
	s->call.answer.result.unprocessed = true;
	answer_fail(&s->call.answer, GRPC_UNAVAILABLE, "request was not sent: %s", nghttp2_strerror(error));
	finish(s);
	return 0;
}

static ssize_t read_request(nghttp2_session *h2, int32_t stream, uint8_t *out, size_t size, uint32_t *flags,
			    nghttp2_data_source *source, void *data)
{
	struct grpc_session *s = data;
	struct call *c = &s->call;
	size_t n = 0, part;

	(void)h2;
	(void)source;
	if (!c->stream || stream != c->stream)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	while (n < size && c->sent < GRPC_PREFIX_BYTES)
		out[n++] = c->prefix[c->sent++];
	part = GRPC_PREFIX_BYTES + c->len - c->sent;
	if (part > size - n)
		part = size - n;
	if (part)
		memcpy(out + n, c->data + (c->sent - GRPC_PREFIX_BYTES), part);
	c->sent += part;
	if (c->sent == GRPC_PREFIX_BYTES + c->len)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)(n + part);
}

static int submit_settings(struct grpc_session *s)
{
	const nghttp2_settings_entry settings[] = {
		{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADER_LIST_MAX},
	};

	return nghttp2_submit_settings(s->h2, NGHTTP2_FLAG_NONE, settings, ARRAY_SIZE(settings)) ? -ENOMEM
												 : 0;
}

int grpc_session_new(struct grpc_session **ret)
{
	_cleanup_grpc_ struct grpc_session *s = calloc(1, sizeof *s);
	nghttp2_session_callbacks *callbacks;
	int r;

	if (!s || nghttp2_session_callbacks_new(&callbacks))
		return -ENOMEM;
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
	nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, on_not_sent);
	r = nghttp2_session_client_new(&s->h2, callbacks, s);
	nghttp2_session_callbacks_del(callbacks);
	if (r)
		return -ENOMEM;
	r = submit_settings(s);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(s);
	return 0;
}

void grpc_session_free(struct grpc_session *s)
{
	if (!s)
		return;
	call_forget(&s->call);
	nghttp2_session_del(s->h2);
	free(s);
}

static nghttp2_nv header(const char *name, const char *value, uint8_t flags)
{
	return (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, strlen(name), strlen(value), flags};
}

/* grpc-timeout: at most eight digits and a unit. */
static void format_timeout(uint64_t ns, char *out, size_t size)
{
	uint64_t ms = (ns + NS_PER_MS - 1) / NS_PER_MS;

	if (ms <= 99999999)
		snprintf(out, size, "%" PRIu64 "m", ms);
	else
		snprintf(out, size, "%" PRIu64 "H", ms / 3600000 < 99999999 ? ms / 3600000 : 99999999);
}

static int submit(struct grpc_session *s, const struct grpc_call *call)
{
	nghttp2_nv nv[FIXED_HEADERS + OTLP_HEADERS_MAX];
	nghttp2_data_provider body = {.read_callback = read_request};
	char timeout[32];
	size_t n = 0;

	nv[n++] = header(":method", "POST", 0);
	nv[n++] = header(":scheme", call->scheme, 0);
	nv[n++] = header(":path", call->path, 0);
	nv[n++] = header(":authority", call->authority, 0);
	nv[n++] = header("te", "trailers", 0);
	nv[n++] = header("content-type", "application/grpc", 0);
	nv[n++] = header("user-agent", call->user_agent, 0);
	nv[n++] = header("grpc-accept-encoding", "gzip,zstd,identity", 0);
	if (call->coding != OTLP_IDENTITY)
		nv[n++] = header("grpc-encoding", otlp_coding_name(call->coding), 0);
	if (call->timeout_ns) {
		format_timeout(call->timeout_ns, timeout, sizeof timeout);
		nv[n++] = header("grpc-timeout", timeout, 0);
	}
	for (size_t i = 0; call->headers && i < call->headers->n; i++)
		nv[n++] = header(call->headers->items[i].name, call->headers->items[i].value,
				 NGHTTP2_NV_FLAG_NO_INDEX);
	return nghttp2_submit_request(s->h2, NULL, nv, n, &body, NULL);
}

int grpc_session_start(struct grpc_session *s, const struct grpc_call *call, grpc_done_fn done, void *data)
{
	struct call *c = &s->call;
	int32_t stream;

	if (c->stream)
		return -EBUSY;
	if (!grpc_session_usable(s))
		return -ENOTCONN;
	if (call->len > UINT32_MAX)
		return -E2BIG;
	stream = submit(s, call);
	if (stream < 0)
		return stream == NGHTTP2_ERR_NOMEM ? -ENOMEM : -ENOTCONN;
	c->stream = stream;
	c->prefix[0] = call->coding != OTLP_IDENTITY;
	for (size_t i = 0; i < 4; i++)
		c->prefix[1 + i] = (uint8_t)(call->len >> (24 - 8 * i));
	c->data = call->data;
	c->len = call->len;
	c->done = done;
	c->done_data = data;
	answer_init(&c->answer);
	return 0;
}

int grpc_session_feed(struct grpc_session *s, const void *data, size_t len)
{
	ssize_t n = nghttp2_session_mem_recv(s->h2, data, len);

	if (n >= 0 && (size_t)n == len)
		return 0;
	s->broken = true;
	grpc_session_lost(s, n < 0 ? nghttp2_strerror((int)n) : "connection is no longer read");
	return -EPROTO;
}

int grpc_session_take(struct grpc_session *s, const uint8_t **ret, size_t *ret_len)
{
	ssize_t n = nghttp2_session_mem_send(s->h2, ret);

	*ret_len = n > 0 ? (size_t)n : 0;
	if (n >= 0)
		return 0;
	s->broken = true;
	return -ENOMEM;
}

void grpc_session_cancel(struct grpc_session *s, enum grpc_status status, const char *text)
{
	struct call *c = &s->call;

	if (!c->stream)
		return;
	nghttp2_submit_rst_stream(s->h2, NGHTTP2_FLAG_NONE, c->stream, NGHTTP2_CANCEL);
	mark_unanswered(c);
	answer_fail(&c->answer, status, "%s", text);
	finish(s);
}

void grpc_session_lost(struct grpc_session *s, const char *text)
{
	if (!s->call.stream)
		return;
	mark_unanswered(&s->call);
	answer_fail(&s->call.answer, GRPC_UNAVAILABLE, "%s", text);
	finish(s);
}

bool grpc_session_busy(const struct grpc_session *s)
{
	return s->call.stream != 0;
}

bool grpc_session_usable(const struct grpc_session *s)
{
	return !s->broken && nghttp2_session_check_request_allowed(s->h2);
}

bool grpc_session_ended(const struct grpc_session *s)
{
	return s->broken || (!nghttp2_session_want_read(s->h2) && !nghttp2_session_want_write(s->h2));
}
