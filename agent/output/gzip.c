// SPDX-License-Identifier: Apache-2.0
#include "agent/output/gzip.h"

#include <errno.h>

#define WINDOW_BITS (15 + 16) /* 16: gzip header and trailer */

int gzip_init(struct gzip *g, FILE *f)
{
	g->f = f;
	g->z = (z_stream){0};
	return deflateInit2(&g->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, WINDOW_BITS, 8, Z_DEFAULT_STRATEGY) ==
			       Z_OK
		       ? 0
		       : -ENOMEM;
}

void gzip_fini(struct gzip *g)
{
	deflateEnd(&g->z);
}

static int run(struct gzip *g, int flush)
{
	int r;

	do {
		size_t n;

		g->z.next_out = g->out;
		g->z.avail_out = sizeof g->out;
		r = deflate(&g->z, flush);
		n = sizeof g->out - g->z.avail_out;
		if (r == Z_STREAM_ERROR || fwrite(g->out, 1, n, g->f) != n)
			return -EIO;
	} while (g->z.avail_out == 0 || (flush == Z_FINISH && r != Z_STREAM_END));
	return 0;
}

int gzip_write(struct gzip *g, const void *data, size_t len)
{
	const uint8_t *p = data;

	while (len) {
		uInt n = len > (1u << 30) ? 1u << 30 : (uInt)len;
		int r;

		g->z.next_in = (Bytef *)p;
		g->z.avail_in = n;
		r = run(g, Z_NO_FLUSH);
		if (r < 0)
			return r;
		p += n;
		len -= n;
	}
	return 0;
}

int gzip_finish(struct gzip *g)
{
	int r = run(g, Z_FINISH);

	return r < 0 ? r : fflush(g->f) != 0 || ferror(g->f) ? -EIO : 0;
}
