// SPDX-License-Identifier: Apache-2.0
/*
 * Sections that are SHF_COMPRESSED (gABI "Section Compression"). libelf 0.188 can only do zlib and trusts the
 * size that the file claims. Here the claim is checked against ELF_SECTION_MAX and against the bytes that the
 * decoder really writes.
 */
#include "agent/elf/file/elf_image_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "agent/base/cleanup.h"

#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif

static int inflate_zlib(const uint8_t *bytes, size_t len, uint8_t *to, size_t to_len)
{
	uLongf written = to_len;

	int r = uncompress(to, &written, bytes, len);
	if (r == Z_MEM_ERROR)
		return -ENOMEM;
	return r == Z_OK && written == to_len ? 0 : -EINVAL;
}

static int inflate_zstd(const uint8_t *bytes, size_t len, uint8_t *to, size_t to_len)
{
	size_t r = ZSTD_decompress(to, to_len, bytes, len);

	return !ZSTD_isError(r) && r == to_len ? 0 : -EINVAL;
}

int elf_decompress(const uint8_t *bytes, size_t len, uint8_t **ret, size_t *ret_len)
{
	_cleanup_free_ uint8_t *plain = NULL;
	Elf64_Chdr header;
	int r;

	if (len < sizeof(header))
		return -EINVAL;
	memcpy(&header, bytes, sizeof(header));
	if (header.ch_size > ELF_SECTION_MAX)
		return -EFBIG;
	plain = malloc(header.ch_size + 1);
	if (!plain)
		return -ENOMEM;
	bytes += sizeof(header);
	len -= sizeof(header);
	if (header.ch_type == ELFCOMPRESS_ZLIB)
		r = inflate_zlib(bytes, len, plain, header.ch_size);
	else if (header.ch_type == ELFCOMPRESS_ZSTD)
		r = inflate_zstd(bytes, len, plain, header.ch_size);
	else
		r = -ENOTSUP;
	if (r < 0)
		return r;
	*ret = TAKE_PTR(plain);
	*ret_len = header.ch_size;
	return 0;
}
