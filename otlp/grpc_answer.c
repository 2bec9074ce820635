// SPDX-License-Identifier: Apache-2.0
#include "otlp/grpc_answer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "otlp/compress.h"

#define CONTENT_TYPE_SHOWN 100 /* maximum length of a content-type quoted in an error */

void grpc_answer_init(struct grpc_answer *a)
{
	*a = (struct grpc_answer){0};
	buf_init(&a->body, GRPC_RESPONSE_MAX + GRPC_PREFIX_BYTES);
}

void grpc_answer_fini(struct grpc_answer *a)
{
	buf_fini(&a->body);
	buf_fini(&a->result.response);
}

void grpc_answer_fail(struct grpc_answer *a, enum grpc_status status, const char *format, ...)
{
	va_list ap;

	a->result.status = status;
	if (a->result.message[0])
		return; /* the server's own text says more */
	va_start(ap, format);
	vsnprintf(a->result.message, sizeof a->result.message, format, ap);
	va_end(ap);
}

int grpc_answer_data(struct grpc_answer *a, const void *data, size_t len)
{
	return buf_append(&a->body, data, len);
}

/*
 * Takes the one message of the response out of its envelope. An OK without any message counts as an
 * empty message.
 */
static void open_response(struct grpc_answer *a)
{
	const uint8_t *p = a->body.data;
	struct buf *out = &a->result.response;
	uint32_t len;
	int r;

	a->result.status = GRPC_OK;
	if (!a->body.len)
		return;
	if (a->body.len < GRPC_PREFIX_BYTES) {
		grpc_answer_fail(a, GRPC_INTERNAL, "response is cut short");
		return;
	}
	len = (uint32_t)p[1] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 8 | p[4];
	if (len != a->body.len - GRPC_PREFIX_BYTES || p[0] > 1) {
		grpc_answer_fail(a, GRPC_INTERNAL, "response has a wrong length prefix");
		return;
	}
	if (p[0] && a->coding == OTLP_IDENTITY) {
		grpc_answer_fail(a, GRPC_INTERNAL, "response is compressed in a way that was not offered");
		return;
	}
	buf_init(out, GRPC_RESPONSE_MAX);
	p += GRPC_PREFIX_BYTES;
	r = a->body.data[0] ? otlp_decompress(a->coding, p, len, out) : buf_append(out, p, len);
	if (r < 0)
		grpc_answer_fail(a, r == -EBADMSG ? GRPC_INTERNAL : GRPC_RESOURCE_EXHAUSTED,
				 "response cannot be decompressed");
}

void grpc_answer_conclude(struct grpc_answer *a)
{
	unsigned http = a->result.http_status;

	if (!a->is_grpc)
		grpc_answer_fail(a, grpc_status_from_http(http),
				 "HTTP status %u with content type '%s' is no gRPC", http, a->content_type);
	else if (!a->has_status)
		grpc_answer_fail(a, http == 200 ? GRPC_UNKNOWN : grpc_status_from_http(http),
				 "HTTP status %u without a grpc-status", http);
	else if (a->status != GRPC_OK)
		grpc_answer_fail(a, a->status, "%s", "");
	else
		open_response(a);
}

static void take_details(struct grpc_answer *a, const char *value, size_t len)
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

static void take_content_type(struct grpc_answer *a, const char *value, size_t len)
{
	static const char type[] = "application/grpc";
	size_t n = sizeof type - 1;

	a->is_grpc = len >= n && !memcmp(value, type, n) && (len == n || value[n] == '+' || value[n] == ';');
	otlp_text_copy(value, len < CONTENT_TYPE_SHOWN ? len : CONTENT_TYPE_SHOWN, a->content_type);
}

static void take_http_status(struct grpc_answer *a, const char *value, size_t len)
{
	a->result.http_status = 0;
	for (size_t i = 0; i < len && i < 3; i++) /* nghttp2 accepts only three digits */
		a->result.http_status = a->result.http_status * 10 + (unsigned)(value[i] - '0');
}

static bool is_name(const char *name, size_t len, const char *wanted)
{
	return len == strlen(wanted) && !memcmp(name, wanted, len);
}

void grpc_answer_header(struct grpc_answer *a, const char *name, size_t name_len, const char *value,
			size_t len)
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
