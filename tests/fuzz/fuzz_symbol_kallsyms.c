// SPDX-License-Identifier: Apache-2.0
/*
 * Parses any bytes as /proc/kallsyms, then looks up the first and last address of each function of the table.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/symbol/kallsyms.h"

static void require(int condition)
{
	if (!condition)
		abort();
}

static void check(const struct kallsyms *t, uint64_t addr)
{
	struct kallsyms_symbol s, at_end;
	struct kallsyms_module m;

	if (kallsyms_lookup(t, addr, &s) < 0)
		return;
	require(s.start <= addr && addr < s.end && s.end - s.start <= KALLSYMS_FUNCTION_MAX);
	require(s.name[0] && strlen(s.name) < 1u << 20);
	require(kallsyms_module(t, s.module_index, &m) == 0);
	require(!s.module == !m.name && (!s.module || strcmp(s.module, m.name) == 0));
	require(kallsyms_lookup(t, s.end, &at_end) < 0 || at_end.start == s.end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kallsyms *t = NULL;
	struct kallsyms_stats stats;

	if (kallsyms_parse(&t, (const char *)data, size) < 0)
		return 0;
	kallsyms_table_stats(t, &stats);
	require(stats.n_symbols > 0 && stats.n_symbols <= size);
	check(t, 0);
	check(t, UINT64_MAX);
	/* addresses that occur in the text, and addresses near them */
	for (size_t i = 0; i + 1 < size; i++) {
		char digits[17] = {0};
		uint64_t addr;

		if (i > 0 && data[i - 1] != '\n')
			continue;
		memcpy(digits, data + i, size - i < 16 ? size - i : 16);
		addr = strtoull(digits, NULL, 16);
		check(t, addr);
		check(t, addr - 1);
		check(t, addr + 0xffff);
	}
	kallsyms_free(t);
	return 0;
}
