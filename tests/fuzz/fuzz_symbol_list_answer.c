// SPDX-License-Identifier: Apache-2.0
/*
 * What a parser process answers when a list of generated code is read: what is accepted makes a table whose
 * ranges are apart and whose names end. The first byte says whether there is a table before.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/symbol/jitread.h"
#include "tests/support/jit_table.h"

static void require(int condition)
{
	if (!condition)
		abort();
}

static struct jit_table *table_before(void)
{
	struct jit_table *t = NULL;
	struct jit_builder b;
	uint64_t n_cut = 0;

	jit_builder_init(&b);
	for (uint64_t i = 1; i < 8; i++)
		require(jit_builder_add(&b, i * 0x1000, 0x800, "before", 6) == 0);
	require(jit_table_new(&t, NULL, &b, &n_cut) == 0);
	return t;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct jit_table *before, *after = NULL;
	struct jit_position at = {0};
	struct jit_progress progress;
	struct jit_symbol s;
	int r;

	if (!size)
		return 0;
	before = data[0] & 1 ? table_before() : NULL;
	r = jit_read_answer(data + 1, size - 1, JIT_READ_MAX, &at, before, &after, &progress);
	require(r == 0 || r == -EBADMSG);
	require(r == 0 || !after);
	for (uint64_t a = 0x1000; r == 0 && a < 0x9000; a += 0x80)
		if (jit_table_find(after, a, &s))
			require(s.start <= a && a < s.end && s.name[0] && strlen(s.name) <= JIT_NAME_MAX);
	jit_table_free(after);
	jit_table_free(before);
	return 0;
}
