// SPDX-License-Identifier: Apache-2.0
#include "h2_server.h"

#include <string.h>

#include <criterion/criterion.h>

#include "agent/base/cleanup.h"

static nghttp2_nv nv(const char *name, const char *value)
{
	return (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, strlen(name), strlen(value), 0};
}

static size_t trailers(const struct h2_reply *r, nghttp2_nv *list)
{
	size_t n = 0;

	if (!r->grpc_status || *r->grpc_status)
		list[n++] = nv("grpc-status", r->grpc_status ? r->grpc_status : "0");
	if (r->grpc_message)
		list[n++] = nv("grpc-message", r->grpc_message);
	if (r->details)
		list[n++] = nv("grpc-status-details-bin", r->details);
	if (r->pushback)
		list[n++] = nv("grpc-retry-pushback-ms", r->pushback);
	return n;
}

static ssize_t read_body(nghttp2_session *h2, int32_t stream, uint8_t *out, size_t size, uint32_t *flags,
			 nghttp2_data_source *source, void *data)
{
	static const uint8_t empty[5];
	struct h2_server *s = data;
	const uint8_t *body = s->reply.body ? s->reply.body : empty;
	size_t len = s->reply.no_body ? 0 : s->reply.body ? s->reply.body_len : sizeof empty, n;
	nghttp2_nv list[8];
	size_t n_trailers = trailers(&s->reply, list);

	(void)source;
	n = len - s->sent < size ? len - s->sent : size;
	if (n)
		memcpy(out, body + s->sent, n);
	s->sent += n;
	if (s->sent < len)
		return (ssize_t)n;
	*flags |= NGHTTP2_DATA_FLAG_EOF;
	if (n_trailers) {
		*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
		nghttp2_submit_trailer(h2, stream, list, n_trailers);
	}
	return (ssize_t)n;
}

static void answer(struct h2_server *s, int32_t stream)
{
	nghttp2_data_provider body = {.read_callback = read_body};
	const struct h2_reply *r = &s->reply;
	nghttp2_nv list[12];
	size_t n = 0;

	list[n++] = nv(":status", r->http_status ? r->http_status : "200");
	list[n++] = nv("content-type", r->content_type ? r->content_type : "application/grpc");
	if (r->encoding)
		list[n++] = nv("grpc-encoding", r->encoding);
	if (r->trailers_only)
		n += trailers(r, list + n);
	s->sent = 0;
	nghttp2_submit_response(s->h2, stream, list, n, r->trailers_only ? NULL : &body);
}

static void react(struct h2_server *s, int32_t stream)
{
	if (s->reply.cut)
		s->cut = true;
	else if (s->reply.goaway_unprocessed)
		nghttp2_submit_goaway(s->h2, 0, stream > 1 ? stream - 2 : 0, s->reply.error, NULL, 0);
	else if (s->reply.reset)
		nghttp2_submit_rst_stream(s->h2, 0, stream, s->reply.error);
	else if (!s->reply.hang)
		answer(s, stream);
	if (s->reply.goaway_after)
		nghttp2_submit_goaway(s->h2, 0, stream, NGHTTP2_NO_ERROR, NULL, 0);
}

static int on_begin(nghttp2_session *h2, const nghttp2_frame *frame, void *data)
{
	struct h2_server *s = data;

	(void)h2;
	if (frame->hd.type != NGHTTP2_HEADERS)
		return 0;
	buf_clear(&s->headers);
	buf_clear(&s->body);
	s->reply = s->decide(s->data, s->n_requests++);
	return 0;
}

static int on_header(nghttp2_session *h2, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
		     const uint8_t *value, size_t len, uint8_t flags, void *data)
{
	struct h2_server *s = data;

	(void)h2;
	(void)frame;
	return buf_printf(&s->headers, "%.*s: %.*s%s\n", (int)name_len, name, (int)len, value,
			  flags & NGHTTP2_NV_FLAG_NO_INDEX ? " (never indexed)" : "");
}

static int on_data(nghttp2_session *h2, uint8_t flags, int32_t stream, const uint8_t *bytes, size_t len,
		   void *data)
{
	struct h2_server *s = data;

	(void)h2;
	(void)flags;
	(void)stream;
	return buf_append(&s->body, bytes, len);
}

static int on_frame(nghttp2_session *h2, const nghttp2_frame *frame, void *data)
{
	struct h2_server *s = data;
	bool is_end = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;

	(void)h2;
	if (frame->hd.type == NGHTTP2_RST_STREAM) {
		s->got_reset = true;
		s->reset_error = frame->rst_stream.error_code;
	} else if (frame->hd.type == NGHTTP2_HEADERS && s->reply.early) {
		react(s, frame->hd.stream_id);
	} else if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) && is_end &&
		   !s->reply.early) {
		react(s, frame->hd.stream_id);
	}
	return 0;
}

static int on_sent(nghttp2_session *h2, const nghttp2_frame *frame, void *data)
{
	struct h2_server *s = data;

	if (frame->hd.type == NGHTTP2_HEADERS && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) &&
	    s->reply.reset_after)
		nghttp2_submit_rst_stream(h2, 0, frame->hd.stream_id, s->reply.error);
	return 0;
}

void h2_server_open(struct h2_server *s)
{
	nghttp2_session_callbacks *callbacks;
	nghttp2_option *option;

	cr_assert_eq(nghttp2_session_callbacks_new(&callbacks), 0);
	cr_assert_eq(nghttp2_option_new(&option), 0);
	nghttp2_option_set_no_auto_window_update(option, s->manual_window);
	nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_sent);
	cr_assert_eq(nghttp2_session_server_new2(&s->h2, callbacks, s, option), 0);
	nghttp2_session_callbacks_del(callbacks);
	nghttp2_option_del(option);
	nghttp2_submit_settings(s->h2, 0, s->settings, s->n_settings);
}

void h2_server_close(struct h2_server *s)
{
	nghttp2_session_del(s->h2);
	s->h2 = NULL;
	buf_fini(&s->headers);
	buf_fini(&s->body);
}

int h2_server_feed(struct h2_server *s, const void *data, size_t len)
{
	return nghttp2_session_mem_recv(s->h2, data, len) == (ssize_t)len ? 0 : -1;
}

size_t h2_server_take(struct h2_server *s, const uint8_t **ret)
{
	ssize_t n = nghttp2_session_mem_send(s->h2, ret);

	return n > 0 ? (size_t)n : 0;
}
