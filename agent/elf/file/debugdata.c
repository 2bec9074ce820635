// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/file/debugdata.h"

#include <elf.h>
#include <errno.h>
#include <lzma.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

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

static int write_all(int fd, const uint8_t *bytes, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, bytes, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == ENOSPC ? -ENOMEM : -errno;
		bytes += n;
		len -= (size_t)n;
	}
	return 0;
}

/* Decodes all of the stream's input, piece by piece, into `fd`. */
static int decode(lzma_stream *s, uint8_t *piece, int fd)
{
	uint64_t total = 0;
	lzma_ret end;

	do {
		s->next_out = piece;
		s->avail_out = PIECE;
		end = lzma_code(s, LZMA_FINISH);
		int r = error_of(end);
		if (r < 0)
			return r;
		size_t n = PIECE - s->avail_out;
		total += n;
		if (total > DEBUGDATA_MAX)
			return -EFBIG;
		r = write_all(fd, piece, n);
		if (r < 0)
			return r;
		if (n == 0 && end != LZMA_STREAM_END)
			return -EINVAL; /* the decoder waits for input that does not exist */
	} while (end != LZMA_STREAM_END);
	return 0;
}

static int decompress(const uint8_t *bytes, size_t len, int fd)
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
	r = decode(&s, piece, fd);
	lzma_end(&s);
	return r;
}

int debugdata_open(struct elf_image **ret, struct elf_image *img)
{
	_cleanup_free_ uint8_t *bytes = NULL;
	_cleanup_close_ int fd = -1;
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
	fd = memfd_create("debugdata", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = decompress(bytes, section.bytes, fd);
	return r < 0 ? r : elf_image_open(ret, fd);
}
