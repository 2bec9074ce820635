// SPDX-License-Identifier: Apache-2.0
/* Parses any bytes as a perf map, in two pieces and as a whole: both give the same table. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/symbol/jitname.h"
#include "agent/symbol/jittable.h"
#include "agent/symbol/perfmap.h"
#include "tests/support/jit_table.h"

static void require(int condition)
{
	if (!condition)
		abort();
}

static struct jit_table *parse(const char *text, size_t len, size_t first)
{
	struct perfmap m = {0};
	struct jit_table *t = NULL, *next;
	struct jit_builder b;
	uint64_t n_cut = 0;
	size_t at = 0, used;

	jit_builder_init(&b);
	for (int i = 0; i < 2; i++) {
		size_t end = i ? len : first;

		require(perfmap_parse(&m, &b, text + at, end - at, &used) == 0);
		require(used <= end - at);
		at += used;
		require(jit_table_new(&next, t, &b, &n_cut) == 0);
		jit_table_free(t);
		t = next;
	}
	jit_builder_fini(&b);
	return t;
}

/* What is shown of a name is its end, and is not empty; a name without mark stays as it is. */
static void check_name(const char *name)
{
	const char *readable = jit_name_readable(name), *language = jit_name_language(name);

	require(readable >= name && readable < name + strlen(name));
	require(language || (readable == name && !jit_name_tier(name)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	struct jit_table *whole, *pieces;
	struct jit_symbol a, b;

	if (size < 1 || size > 60000)
		return 0;
	whole = parse(text, size, 0);
	pieces = parse(text, size, data[0] % size);
	require(jit_table_len(whole) == jit_table_len(pieces));
	for (size_t i = 0; i < size; i++) {
		char digits[17] = {0};
		uint64_t addr;

		if (i && data[i - 1] != '\n')
			continue;
		memcpy(digits, data + i, size - i < 16 ? size - i : 16);
		addr = strtoull(digits, NULL, 16);
		if (!jit_table_find(whole, addr, &a)) {
			require(!jit_table_find(pieces, addr, &b));
			continue;
		}
		require(jit_table_find(pieces, addr, &b) && strcmp(a.name, b.name) == 0);
		require(a.start <= addr && addr < a.end && a.end <= JIT_ADDRESS_MAX);
		require(a.name[0] && strlen(a.name) <= JIT_NAME_MAX);
		check_name(a.name);
		require(!jit_table_find(whole, a.end, &b) || b.start == a.end);
	}
	jit_table_free(whole);
	jit_table_free(pieces);
	return 0;
}
