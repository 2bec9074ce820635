// SPDX-License-Identifier: Apache-2.0
/*
 * Simulates a misbehaving server. The input is a script: raw bytes, or frames with headers that a real HPACK
 * encoder packs, since random bytes would never pass the decoder. Whatever the server sends, the call must
 * end exactly once.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <nghttp2/nghttp2.h>

#include "agent/base/buf.h"
#include "otlp/grpc.h"

struct input {
	const uint8_t *data;
	size_t len;
};

static unsigned next(struct input *in)
{
	if (!in->len)
		return 0;
	in->len--;
	return *in->data++;
}

static struct input piece(struct input *in, size_t len)
{
	struct input p = {in->data, len < in->len ? len : in->len};

	in->data += p.len;
	in->len -= p.len;
	return p;
}

static void frame(struct buf *out, unsigned type, unsigned flags, uint32_t stream, const void *data,
		  size_t len)
{
	const uint8_t head[9] = {(uint8_t)(len >> 16),
				 (uint8_t)(len >> 8),
				 (uint8_t)len,
				 (uint8_t)type,
				 (uint8_t)flags,
				 0,
				 0,
				 0,
				 (uint8_t)stream};

	buf_append(out, head, sizeof head);
	buf_append(out, data, len);
}

static void headers(struct buf *out, struct input *in, nghttp2_hd_deflater *hpack)
{
	static const char *const names[] = {":status",
					    "content-type",
					    "grpc-status",
					    "grpc-message",
					    "grpc-status-details-bin",
					    "grpc-encoding",
					    "grpc-retry-pushback-ms",
					    "x"};
	static const char *const values[] = {"200", "application/grpc", "0",  "gzip", "14",
					     "503", "text/html",	"100"};
	unsigned flags = next(in), n = flags >> 4;
	nghttp2_nv nv[16];
	uint8_t block[4096];
	ssize_t len;

	for (unsigned i = 0; i < n; i++) {
		unsigned which = next(in);
		const char *name = names[which & 7];
		struct input value = which & 0x80 ? piece(in, next(in))
						  : (struct input){(const uint8_t *)values[which >> 4 & 7],
								   strlen(values[which >> 4 & 7])};

		nv[i] = (nghttp2_nv){(uint8_t *)name, (uint8_t *)value.data, strlen(name), value.len, 0};
	}
	len = nghttp2_hd_deflate_hd(hpack, block, sizeof block, nv, n);
	if (len > 0)
		frame(out, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | (flags & 1), 1, block, (size_t)len);
}

/* Appends the bytes of the next step of the script. */
static void step(struct buf *out, struct input *in, nghttp2_hd_deflater *hpack)
{
	unsigned op = next(in);
	struct input p;
	const uint8_t goaway[8] = {0, 0, 0, (uint8_t)(op >> 4), 0, 0, 0, (uint8_t)(op >> 5)};

	switch (op & 7) {
	case 0:
		headers(out, in, hpack);
		break;
	case 1:
		p = piece(in, next(in));
		frame(out, NGHTTP2_DATA, op >> 4 & 1, 1, p.data, p.len);
		break;
	case 2:
		frame(out, NGHTTP2_RST_STREAM, 0, 1, (const uint8_t[4]){0, 0, 0, (uint8_t)(op >> 4)}, 4);
		break;
	case 3:
		frame(out, NGHTTP2_GOAWAY, 0, 0, goaway, sizeof goaway);
		break;
	case 4:
		frame(out, NGHTTP2_WINDOW_UPDATE, 0, op >> 4 & 1,
		      (const uint8_t[4]){0, 0, (uint8_t)next(in), 1}, 4);
		break;
	case 5:
		p = piece(in, 6 * (op >> 4 & 3));
		frame(out, NGHTTP2_SETTINGS, 0, 0, p.data, p.len);
		break;
	case 6:
		frame(out, NGHTTP2_PING, 0, 0, "12345678", 8);
		break;
	default:
		p = piece(in, next(in));
		buf_append(out, p.data, p.len);
	}
}

static void on_done(void *data, struct grpc_result *result)
{
	unsigned *n = data;

	(*n)++;
	if (result->status >= GRPC_N_STATUS_CODES || result->response.len > GRPC_RESPONSE_MAX)
		abort();
}

static int drain(struct grpc_session *s)
{
	const uint8_t *out;
	size_t len, total = 0;

	do {
		if (grpc_session_take(s, &out, &len) < 0)
			return -1;
		total += len;
		if (total > 1 << 20) /* the request is small, so more bytes mean an endless loop */
			abort();
	} while (len);
	return 0;
}

static void play(struct grpc_session *s, struct input *in, nghttp2_hd_deflater *hpack)
{
	unsigned flags = next(in);

	if (flags & 1 && drain(s) < 0)
		return;
	if (flags & 2)
		grpc_session_cancel(s, GRPC_DEADLINE_EXCEEDED, "late");
	while (in->len) {
		struct buf out = {0};
		int r;

		step(&out, in, hpack);
		r = grpc_session_feed(s, out.data ? out.data : (const uint8_t *)"", out.len);
		buf_fini(&out);
		if (r < 0 || drain(s) < 0)
			return;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct grpc_call call = {
		.scheme = "http",
		.authority = "h:1",
		.path = "/p",
		.user_agent = "u",
		.data = "message",
		.len = 7,
	};
	struct input in = {data, size};
	struct grpc_session *s;
	nghttp2_hd_deflater *hpack;
	unsigned n = 0;

	if (grpc_session_new(&s) < 0)
		return 0;
	if (nghttp2_hd_deflate_new(&hpack, 4096)) {
		grpc_session_free(s);
		return 0;
	}
	if (grpc_session_start(s, &call, on_done, &n) < 0)
		abort();
	if (grpc_session_feed(s, "\0\0\0\4\0\0\0\0\0", 9) < 0) /* the server's SETTINGS come first */
		abort();
	play(s, &in, hpack);
	grpc_session_lost(s, "end of input");
	if (n != 1 || grpc_session_busy(s))
		abort();
	nghttp2_hd_deflate_del(hpack);
	grpc_session_free(s);
	return 0;
}
