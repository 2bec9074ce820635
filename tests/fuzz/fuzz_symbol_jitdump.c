// SPDX-License-Identifier: Apache-2.0
/*
 * Parses any bytes as a jitdump file: unchanged, and with a valid magic and version so that the parser goes
 * past the header.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/symbol/jitdump.h"
#include "agent/symbol/jittable.h"
#include "tests/support/jit_table.h"

static void require(int condition)
{
	if (!condition)
		abort();
}

static void parse(const uint8_t *data, size_t size)
{
	struct jitdump d = {0};
	struct jit_table *t = NULL;
	struct jit_builder b;
	struct jit_symbol s;
	uint64_t at = 0, used = 1, n_cut = 0;
	int r = 0;

	jit_builder_init(&b);
	while (at < size && used && r == 0) {
		r = jitdump_parse(&d, &b, data + at, size - at, &used);
		at += used;
	}
	require(r == 0 || r == -74 /* EBADMSG */);
	require(jit_table_new(&t, NULL, &b, &n_cut) == 0);
	jit_builder_fini(&b);
	for (size_t i = 0; i + 8 <= size; i++) {
		uint64_t addr;

		memcpy(&addr, data + i, sizeof addr);
		if (!jit_table_find(t, addr, &s))
			continue;
		require(s.start <= addr && addr < s.end && s.end <= JIT_ADDRESS_MAX);
		require(s.name[0] && strlen(s.name) <= JIT_NAME_MAX);
	}
	jit_table_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t header[12] = {0x44, 0x54, 0x69, 0x4a, 1, 0, 0, 0, 40, 0, 0, 0};
	uint8_t *copy;

	parse(data, size);
	if (size < sizeof header)
		return 0;
	copy = malloc(size);
	require(copy != NULL);
	memcpy(copy, data, size);
	memcpy(copy, header, sizeof header);
	parse(copy, size);
	free(copy);
	return 0;
}
