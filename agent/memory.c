// SPDX-License-Identifier: Apache-2.0
/*
 * How memory.total is divided: a quarter for unwind tables, an eighth each for requests that wait, for
 * samples of the current window, and for samples that wait for tables. The remainder is for the program
 * itself, for names, and for binaries while their tables are built. An eighth of the group's limit stays free
 * for other memory that the kernel charges to the group: page tables, descriptors, file pages that it
 * reclaims slowly.
 */
#include "agent/memory.h"

#include <inttypes.h>
#include <stdbool.h>

#include "agent/base/log.h"
#include "agent/config/config.h"
#include "cgroup/limit.h"

#define MIB ((uint64_t)1 << 20)
#define TOTAL_MIN (32 * MIB) /* the minimum in agent/config/config_keys.c */
#define TABLES_MIN (4 * MIB)

static bool is_default(const struct config *c, const char *key)
{
	return config_origin(c, key)->source == CONFIG_FROM_DEFAULT;
}

static void lower(uint64_t *bytes, uint64_t most, uint64_t least)
{
	if (*bytes > most)
		*bytes = most > least ? most : least;
}

void memory_fit_to(struct config *c, uint64_t limit_bytes)
{
	if (limit_bytes != UINT64_MAX && is_default(c, "memory.total"))
		lower(&c->memory.total_bytes, limit_bytes - limit_bytes / 8, TOTAL_MIN);
	if (is_default(c, "memory.tables"))
		lower(&c->memory.tables_bytes, c->memory.total_bytes / 4, TABLES_MIN);
	if (is_default(c, "queue.memory"))
		lower(&c->queue.memory_bytes, c->memory.total_bytes / 8, TABLES_MIN);
}

void memory_fit(struct config *c)
{
	uint64_t limit, before = c->memory.total_bytes;

	if (cgroup_memory_limit("", &limit) < 0)
		limit = UINT64_MAX;
	memory_fit_to(c, limit);
	if (limit == UINT64_MAX)
		return;
	if (c->memory.total_bytes > limit)
		log_warn("memory.total is %" PRIu64 " MiB, the control group's limit %" PRIu64
			 " MiB: the kernel may kill the agent",
			 c->memory.total_bytes / MIB, limit / MIB);
	else if (c->memory.total_bytes != before)
		log_info("memory: the control group's limit is %" PRIu64 " MiB: total %" PRIu64
			 " MiB, tables %" PRIu64 " MiB, queue %" PRIu64 " MiB",
			 limit / MIB, c->memory.total_bytes / MIB, c->memory.tables_bytes / MIB,
			 c->queue.memory_bytes / MIB);
}
