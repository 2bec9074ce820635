// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>

#include "agent/base/cleanup.h"
#include "agent/config/config.h"
#include "agent/memory.h"

#define MIB (1ull << 20)

static const struct {
	const char *key, *value; /* set by the user; NULL: nothing */
	uint64_t limit;
	uint64_t total, tables, queue; /* MiB */
} rows[] = {
	{NULL, NULL, UINT64_MAX, 256, 64, 32},
	{NULL, NULL, 1024 * MIB, 256, 64, 32},
	{NULL, NULL, 256 * MIB, 224, 56, 28},
	{NULL, NULL, 128 * MIB, 112, 28, 14},
	{NULL, NULL, 16 * MIB, 32, 8, 4},
	{"--memory.total", "128MiB", UINT64_MAX, 128, 32, 16},
	{"--memory.total", "512MiB", 128 * MIB, 512, 64, 32},
	{"--memory.tables", "48MiB", 128 * MIB, 112, 48, 14},
	{"--queue.memory", "8MiB", 64 * MIB, 56, 14, 8},
};

Test(memory, parts_fit_the_limit)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char *argv[] = {(char *)"run", (char *)rows[i].key, (char *)rows[i].value, NULL};
		_cleanup_config_ struct config *c = NULL;
		_cleanup_free_ char *error = NULL;

		cr_assert_eq(config_load(&c, rows[i].key ? 3 : 1, argv, NULL, 0, NULL, &error), 0, "%s",
			     error);
		memory_fit_to(c, rows[i].limit);
		cr_expect_eq(c->memory.total_bytes, rows[i].total * MIB, "row %zu: %lu", i,
			     (unsigned long)(c->memory.total_bytes / MIB));
		cr_expect_eq(c->memory.tables_bytes, rows[i].tables * MIB, "row %zu: %lu", i,
			     (unsigned long)(c->memory.tables_bytes / MIB));
		cr_expect_eq(c->queue.memory_bytes, rows[i].queue * MIB, "row %zu: %lu", i,
			     (unsigned long)(c->queue.memory_bytes / MIB));
	}
}
