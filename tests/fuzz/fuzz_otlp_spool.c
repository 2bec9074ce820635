// SPDX-License-Identifier: Apache-2.0
/*
 * Reads any bytes as a file of the spool: they are refused, or a request that makes the same file again. The
 * checksums refuse almost all inputs, so the bytes also serve as the fields of a request, whose file is read
 * back, once unchanged and once with one bit flipped.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "otlp/spool_file.h"

static bool same(const struct otlp_request *a, const struct otlp_request *b)
{
	return a->n_samples == b->n_samples && a->n_profiles == b->n_profiles &&
	       a->raw_bytes == b->raw_bytes && a->coding == b->coding &&
	       a->start_unix_ns == b->start_unix_ns && a->end_unix_ns == b->end_unix_ns &&
	       a->data.len == b->data.len &&
	       (!a->data.len || !memcmp(a->data.data, b->data.data, a->data.len));
}

static void as_file(const uint8_t *data, size_t size)
{
	_cleanup_request_ struct otlp_request *r = NULL;
	uint8_t header[SPOOL_HEADER_BYTES];

	if (spool_file_decode(data, size, &r) < 0)
		return;
	if (spool_file_header(r, header) < 0 || memcmp(header, data, sizeof header))
		abort();
}

static void as_request(const uint64_t fields[6], const uint8_t *data, size_t size)
{
	_cleanup_request_ struct otlp_request *r = calloc(1, sizeof *r), *again = NULL, *damaged = NULL;
	size_t bit = fields[5] % ((SPOOL_HEADER_BYTES + size) * 8);
	uint8_t *file = malloc(SPOOL_HEADER_BYTES + size);

	if (!r || !file || buf_append(&r->data, data, size) < 0)
		abort();
	r->n_samples = fields[0];
	r->n_profiles = fields[1];
	r->raw_bytes = fields[2];
	r->start_unix_ns = fields[3];
	r->end_unix_ns = fields[4];
	r->coding = (enum otlp_coding)(fields[5] % 3);
	if (spool_file_header(r, file) < 0)
		abort();
	if (size)
		memcpy(file + SPOOL_HEADER_BYTES, data, size);
	if (spool_file_decode(file, SPOOL_HEADER_BYTES + size, &again) < 0 || !same(r, again))
		abort();
	file[bit / 8] ^= (uint8_t)(1u << bit % 8);
	if (spool_file_decode(file, SPOOL_HEADER_BYTES + size, &damaged) == 0)
		abort();
	free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t fields[6];

	as_file(data, size);
	if (size < sizeof fields)
		return 0;
	memcpy(fields, data, sizeof fields);
	as_request(fields, data + sizeof fields, size - sizeof fields);
	return 0;
}
