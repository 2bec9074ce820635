// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/runtime/dotnet_metadata.h"

#include <errno.h>
#include <string.h>

#include "agent/elf/runtime/vm_memory.h"

#define SIGNATURE 0x424a5342u
#define VERSION_MAX 256u
#define STREAMS_MAX 16u
#define STREAM_NAME_MAX 32u

static void take_stream(struct dotnet_stream *streams, size_t n, const char *name, uint64_t at,
			uint32_t bytes)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(streams[i].name, name) == 0) {
			streams[i].at = at;
			streams[i].bytes = bytes;
		}
}

/* The headers of the streams begin at `at`. */
static int read_headers(struct dotnet_stream *streams, size_t n, struct vm_memory *m, uint64_t root,
			uint64_t at)
{
	uint64_t count;
	int r = vm_read_number(m, &count, at + 2, 2);

	if (r == 0 && count > STREAMS_MAX)
		r = -ENOTSUP;
	at += 4;
	for (uint64_t i = 0; i < count && r == 0; i++) {
		char name[STREAM_NAME_MAX];
		uint64_t off, bytes;

		r = vm_read_number(m, &off, at, 4);
		if (r == 0)
			r = vm_read_number(m, &bytes, at + 4, 4);
		if (r == 0)
			r = vm_read_string(m, name, sizeof name, at + 8);
		if (r == 0 && (off > DOTNET_METADATA_MAX || bytes > DOTNET_METADATA_MAX))
			r = -ENOTSUP;
		if (r < 0)
			return r;
		take_stream(streams, n, name, root + off, (uint32_t)bytes);
		at += 8 + ((strlen(name) + 4) & ~(size_t)3);
	}
	return r;
}

int dotnet_streams_find(struct dotnet_stream *streams, size_t n, struct vm_memory *m, uint64_t root)
{
	uint64_t signature, length;
	int r = vm_read_number(m, &signature, root, 4);

	for (size_t i = 0; i < n; i++)
		streams[i].at = streams[i].bytes = 0;
	if (r == 0)
		r = vm_read_number(m, &length, root + 12, 4);
	if (r == 0 && (signature != SIGNATURE || length > VERSION_MAX))
		r = -ENOTSUP;
	return r == 0 ? read_headers(streams, n, m, root, root + 16 + ((length + 3) & ~3ull)) : r;
}

/* The number, and how many bits of it there are. */
static int read_number(uint32_t *ret, unsigned *ret_bits, struct vm_memory *m, uint64_t *at)
{
	uint8_t b[4];
	unsigned bytes;
	int r = vm_read(m, b, *at, 1);

	if (r < 0)
		return r;
	bytes = !(b[0] & 0x80) ? 1 : !(b[0] & 0x40) ? 2 : 4;
	*ret_bits = bytes == 4 ? 29 : 7 * bytes;
	*ret = b[0] & ((1u << (*ret_bits - 8 * (bytes - 1))) - 1);
	if (bytes > 1)
		r = vm_read(m, b, *at + 1, bytes - 1);
	for (unsigned i = 0; i + 1 < bytes; i++)
		*ret = *ret << 8 | b[i];
	*at += bytes;
	return r;
}

int dotnet_number_read(uint32_t *ret, struct vm_memory *m, uint64_t *at)
{
	unsigned bits;

	return read_number(ret, &bits, m, at);
}

/* The sign is in the lowest bit. */
int dotnet_signed_read(int32_t *ret, struct vm_memory *m, uint64_t *at)
{
	uint32_t value;
	unsigned bits;
	int r = read_number(&value, &bits, m, at);

	if (r == 0)
		*ret = (int32_t)(value >> 1) - (value & 1 ? 1 << (bits - 1) : 0);
	return r;
}
