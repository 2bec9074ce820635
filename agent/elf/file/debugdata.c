// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/file/debugdata.h"

#include <elf.h>
#include <errno.h>
#include <lzma.h>
#include <stdlib.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"

#define PIECE (256u << 10) /* bytes that are decompressed at once */

static int error_of(lzma_ret r)
{
	switch (r) {
	case LZMA_OK:
	case LZMA_STREAM_END:
		return 0;
	case LZMA_MEM_ERROR:
		return -ENOMEM;
	case LZMA_MEMLIMIT_ERROR:
		return -EFBIG;
	case LZMA_FORMAT_ERROR:
	case LZMA_OPTIONS_ERROR:
		return -ENOTSUP;
	default:
		return -EINVAL;
	}
}

/* Decodes all of the stream's input, piece by piece, into `out`. */
static int decode(lzma_stream *s, uint8_t *piece, struct buf *out)
{
	lzma_ret end;

	do {
		s->next_out = piece;
		s->avail_out = PIECE;
		end = lzma_code(s, LZMA_FINISH);
		int r = error_of(end);
		if (r < 0)
			return r;
		size_t n = PIECE - s->avail_out;
		r = buf_append(out, piece, n);
		if (r < 0)
			return r == -EOVERFLOW ? -EFBIG : r;
		if (n == 0 && end != LZMA_STREAM_END)
			return -EINVAL; /* the decoder waits for input that does not exist */
	} while (end != LZMA_STREAM_END);
	return 0;
}

static int decompress(const uint8_t *bytes, size_t len, struct buf *out)
{
	_cleanup_free_ uint8_t *piece = malloc(PIECE);
	lzma_stream s = LZMA_STREAM_INIT;
	int r;

	if (!piece)
		return -ENOMEM;
	r = error_of(lzma_stream_decoder(&s, DEBUGDATA_WORK_MAX, 0));
	if (r < 0)
		return r;
	s.next_in = bytes;
	s.avail_in = len;
	r = decode(&s, piece, out);
	lzma_end(&s);
	return r;
}

int debugdata_open(struct elf_image **ret, struct elf_image *img)
{
	_cleanup_free_ uint8_t *bytes = NULL;
	_cleanup_buf_ struct buf out = {.max = DEBUGDATA_MAX};
	struct elf_section section;
	int r;

	r = elf_image_find_section(img, ".gnu_debugdata", &section);
	if (r < 0 || section.type == SHT_NOBITS)
		return -ENOENT;
	if (section.bytes > DEBUGDATA_STORED_MAX)
		return -EFBIG;
	r = elf_image_pread_new(img, section.offset, section.bytes, &bytes);
	if (r < 0)
		return r;
	r = decompress(bytes, section.bytes, &out);
	if (r < 0)
		return r;
	r = elf_image_open_bytes(ret, out.data, out.len);
	if (r == 0)
		TAKE_PTR(out.data);
	return r;
}
