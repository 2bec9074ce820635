// SPDX-License-Identifier: Apache-2.0
#include "otlp/spool_file.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static const char magic[8] = "PFLSPL01";

struct header {
	char magic[8];
	uint64_t n_samples, n_profiles, raw_bytes, start_unix_ns, end_unix_ns;
	uint32_t data_bytes, coding, data_crc, header_crc;
};

_Static_assert(sizeof(struct header) == SPOOL_HEADER_BYTES, "spool header");

static uint32_t crc_of(const void *data, size_t len)
{
	return (uint32_t)crc32_z(crc32_z(0, NULL, 0), data, len);
}

int spool_file_header(const struct otlp_request *r, uint8_t ret[SPOOL_HEADER_BYTES])
{
	struct header h = {
		.n_samples = htole64(r->n_samples),
		.n_profiles = htole64(r->n_profiles),
		.raw_bytes = htole64(r->raw_bytes),
		.start_unix_ns = htole64(r->start_unix_ns),
		.end_unix_ns = htole64(r->end_unix_ns),
		.data_bytes = htole32((uint32_t)r->data.len),
		.coding = htole32((uint32_t)r->coding),
	};

	if (r->data.len > SPOOL_DATA_MAX)
		return -EFBIG;
	memcpy(h.magic, magic, sizeof magic);
	h.data_crc = htole32(crc_of(r->data.data, r->data.len));
	h.header_crc = htole32(crc_of(&h, offsetof(struct header, header_crc)));
	memcpy(ret, &h, sizeof h);
	return 0;
}

int spool_file_decode(const uint8_t *file, size_t len, struct otlp_request **ret)
{
	_cleanup_request_ struct otlp_request *r = NULL;
	struct header h;
	int result;

	if (len < sizeof h)
		return -EBADMSG;
	memcpy(&h, file, sizeof h);
	if (memcmp(h.magic, magic, sizeof magic) ||
	    le32toh(h.header_crc) != crc_of(&h, offsetof(struct header, header_crc)) ||
	    le32toh(h.data_bytes) != len - sizeof h || le32toh(h.data_bytes) > SPOOL_DATA_MAX ||
	    le32toh(h.coding) > OTLP_ZSTD || le32toh(h.data_crc) != crc_of(file + sizeof h, len - sizeof h))
		return -EBADMSG;
	r = calloc(1, sizeof *r);
	if (!r)
		return -ENOMEM;
	r->coding = (enum otlp_coding)le32toh(h.coding);
	r->n_samples = le64toh(h.n_samples);
	r->n_profiles = le64toh(h.n_profiles);
	r->raw_bytes = le64toh(h.raw_bytes);
	r->start_unix_ns = le64toh(h.start_unix_ns);
	r->end_unix_ns = le64toh(h.end_unix_ns);
	result = buf_append(&r->data, file + sizeof h, len - sizeof h);
	if (result < 0)
		return result;
	*ret = TAKE_PTR(r);
	return 0;
}
