// SPDX-License-Identifier: Apache-2.0
#include "otlp/compress.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include <zlib.h>
#include <zstd.h>

#include "agent/base/cleanup.h"

/*
 * Level 1: requests are mostly small repeated integers and names. Higher levels take three times the CPU time
 * and save a tenth of the bytes.
 */
#define GZIP_LEVEL 1
#define ZSTD_LEVEL 1
#define GZIP_WINDOW (15 + 16) /* + 16 selects the gzip format, see deflateInit2 */
/* 8 MiB: RFC 8878 has every decoder accept this; a larger window would cost more memory. */
#define ZSTD_WINDOW_LOG_MAX 23
#define CHUNK 16384 /* bytes of output at a time */

DEFINE_CLEANUP(z_stream *, deflateEnd)
DEFINE_CLEANUP(z_stream *, inflateEnd)
DEFINE_CLEANUP(ZSTD_DCtx *, ZSTD_freeDCtx)

/* Indexed by enum otlp_coding. */
static const char *const coding_names[] = {"identity", "gzip", "zstd"};

const char *otlp_coding_name(enum otlp_coding coding)
{
	return coding_names[coding];
}

/* Runs the stream until it ends or needs more input than there is. */
static int run(z_stream *z, int (*step)(z_stream *, int), int flush, struct buf *out, int *ret_z)
{
	int r, zr;

	do {
		r = buf_reserve(out, CHUNK);
		if (r < 0)
			return r;
		z->next_out = out->data + out->len;
		z->avail_out = CHUNK;
		zr = step(z, flush);
		out->len += CHUNK - z->avail_out;
	} while (zr == Z_OK && !z->avail_out);
	*ret_z = zr;
	return 0;
}

static int gzip(const void *data, size_t len, struct buf *out)
{
	z_stream stream = {.next_in = (Bytef *)data, .avail_in = (uInt)len};
	_cleanup_(deflateEnd_p) z_stream *z = NULL;
	int r, zr;

	if (deflateInit2(&stream, GZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	z = &stream;
	r = run(z, deflate, Z_FINISH, out, &zr);
	if (r < 0)
		return r;
	return zr == Z_STREAM_END ? 0 : -ENOMEM;
}

static int zstd(const void *data, size_t len, struct buf *out)
{
	size_t bound = ZSTD_compressBound(len), n;
	int r;

	r = buf_reserve(out, bound);
	if (r < 0)
		return r;
	n = ZSTD_compress(out->data + out->len, bound, data, len, ZSTD_LEVEL);
	if (ZSTD_isError(n))
		return -ENOMEM;
	out->len += n;
	return 0;
}

int otlp_compress(enum otlp_coding coding, const void *data, size_t len, struct buf *out)
{
	if (len > UINT_MAX)
		return -EOVERFLOW;
	switch (coding) {
	case OTLP_GZIP:
		return gzip(data, len, out);
	case OTLP_ZSTD:
		return zstd(data, len, out);
	default:
		return -EINVAL;
	}
}

static int gunzip(const void *data, size_t len, struct buf *out)
{
	z_stream stream = {.next_in = (Bytef *)data, .avail_in = (uInt)len};
	_cleanup_(inflateEnd_p) z_stream *z = NULL;
	int r, zr;

	if (inflateInit2(&stream, GZIP_WINDOW) != Z_OK)
		return -ENOMEM;
	z = &stream;
	r = run(z, inflate, Z_NO_FLUSH, out, &zr);
	if (r < 0)
		return r;
	if (zr == Z_MEM_ERROR)
		return -ENOMEM;
	return zr == Z_STREAM_END && !z->avail_in ? 0 : -EBADMSG;
}

static int unzstd(const void *data, size_t len, struct buf *out)
{
	_cleanup_(ZSTD_freeDCtx_p) ZSTD_DCtx *ctx = ZSTD_createDCtx();
	ZSTD_inBuffer in = {data, len, 0};
	ZSTD_outBuffer part;
	size_t left;
	int r;

	if (!ctx)
		return -ENOMEM;
	ZSTD_DCtx_setParameter(ctx, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG_MAX);
	do {
		r = buf_reserve(out, CHUNK);
		if (r < 0)
			return r;
		part = (ZSTD_outBuffer){out->data + out->len, CHUNK, 0};
		left = ZSTD_decompressStream(ctx, &part, &in);
		if (ZSTD_isError(left))
			return -EBADMSG;
		out->len += part.pos;
	} while (left && (in.pos < in.size || part.pos == part.size));
	return !left && in.pos == in.size ? 0 : -EBADMSG;
}

int otlp_decompress(enum otlp_coding coding, const void *data, size_t len, struct buf *out)
{
	if (len > UINT_MAX)
		return -EOVERFLOW;
	switch (coding) {
	case OTLP_GZIP:
		return gunzip(data, len, out);
	case OTLP_ZSTD:
		return unzstd(data, len, out);
	default:
		return -EINVAL;
	}
}

int otlp_coding_parse(const char *name, size_t len, enum otlp_coding *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(coding_names); i++) {
		if (len != strlen(coding_names[i]) || memcmp(name, coding_names[i], len))
			continue;
		*ret = (enum otlp_coding)i;
		return 0;
	}
	return -EINVAL;
}

/* The length of a list item without its weight and spaces. */
static size_t name_length(const char *item, size_t len)
{
	size_t n = 0;

	while (n < len && item[n] != ';' && item[n] != ' ' && item[n] != '\t')
		n++;
	return n;
}

unsigned otlp_codings_parse(const char *list, size_t len)
{
	unsigned codings = 1u << OTLP_IDENTITY;
	enum otlp_coding coding;

	for (size_t i = 0, n; i < len; i += n + 1) {
		while (i < len && (list[i] == ' ' || list[i] == '\t'))
			i++;
		for (n = 0; i + n < len && list[i + n] != ','; n++)
			;
		if (!otlp_coding_parse(list + i, name_length(list + i, n), &coding))
			codings |= 1u << coding;
	}
	return codings;
}
