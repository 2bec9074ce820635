// SPDX-License-Identifier: Apache-2.0
/*
 * Parses any bytes as a side-band record, unchanged, and with the right size in the header, so that the
 * parser goes on to the body.
 */
#include <linux/perf_event.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/probe/sideband.h"

static void decode(const uint8_t *record, size_t size)
{
	struct sideband_event e;

	if (sideband_decode(record, size, &e) < 0)
		return;
	if (e.mmap.build_id_len > SIDEBAND_BUILD_ID_MAX || e.mmap.has_build_id != (e.mmap.build_id_len > 0))
		abort();
	if (e.name[0] && (size_t)((const uint8_t *)e.name - record) + strlen(e.name) >= size)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);
	uint16_t wanted = (uint16_t)size;

	if (!copy)
		return 0;
	memcpy(copy, data, size);
	decode(copy, size);
	if (size >= sizeof(struct perf_event_header)) {
		memcpy(copy + offsetof(struct perf_event_header, size), &wanted, sizeof wanted);
		decode(copy, size);
	}
	free(copy);
	return 0;
}
