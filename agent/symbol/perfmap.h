// SPDX-License-Identifier: Apache-2.0
/*
 * Parses /tmp/perf-<pid>.map as perf does (tools/perf/Documentation/jit-interface.txt): lines "START SIZE
 * NAME", with both numbers in hex and a name that extends to the end of the line. Pure; foreign bytes. Rank
 * 2.
 */
#ifndef PROFLET_SYMBOL_PERFMAP_H
#define PROFLET_SYMBOL_PERFMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jit_builder;

#define PERFMAP_LINE_MAX 16384u /* bytes; longer lines are skipped */

struct perfmap {
	bool skipping;	/* inside a line that is too long */
	uint64_t n_bad; /* malformed lines */
};

/*
 * Parses complete lines. *ret_used bytes are consumed (also on -ENOSPC); pass the remaining ones again,
 * followed by more. PERFMAP_LINE_MAX bytes always make progress. 0, or as jit_builder_add: -ENOSPC, -ENOMEM.
 */
int perfmap_parse(struct perfmap *m, struct jit_builder *b, const char *text, size_t len, size_t *ret_used);

#endif
