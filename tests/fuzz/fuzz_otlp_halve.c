// SPDX-License-Identifier: Apache-2.0
/*
 * Halves any bytes as a request that a server found too large, and that may have been read from a disk. Two
 * bytes say how many samples it claims to have. Halving must lose no sample, and the halves can be halved
 * again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "otlp/halve.h"

#define DEPTH 6 /* one level more than the exporter uses */

static void halve(const struct otlp_request *whole, int depth)
{
	struct otlp_request *half[2] = {NULL, NULL};

	if (!depth || otlp_request_halve(whole, half) < 0)
		return;
	if (!half[0]->n_samples || !half[1]->n_samples ||
	    half[0]->n_samples + half[1]->n_samples != whole->n_samples)
		abort();
	for (int i = 0; i < 2; i++) {
		if (half[i]->raw_bytes != half[i]->data.len)
			abort();
		halve(half[i], depth - 1);
		otlp_request_free(half[i]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct otlp_request whole = {.raw_bytes = size};

	if (size < 2 || size > 65536)
		return 0;
	whole.n_samples = (uint64_t)data[0] | (uint64_t)data[1] << 8;
	if (buf_append(&whole.data, data + 2, size - 2) < 0)
		return 0;
	halve(&whole, DEPTH);
	buf_fini(&whole.data);
	return 0;
}
