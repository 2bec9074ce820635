// SPDX-License-Identifier: Apache-2.0
/*
 * /tmp/perf-<pid>.map, as perf reads it (tools/perf/Documentation/jit-interface.txt): lines "START SIZE
 * NAME", both numbers in hex, the name up to the line's end. Pure; foreign bytes. Rank 2.
 */
#ifndef PROFLET_SYMBOL_PERFMAP_H
#define PROFLET_SYMBOL_PERFMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jit_builder;

#define PERFMAP_LINE_MAX 16384u /* bytes; what is longer is no line */

struct perfmap {
	bool skipping;	/* inside a line that was too long */
	uint64_t n_bad; /* lines that are none */
};

/*
 * Takes whole lines; *ret_used bytes (also on -ENOSPC) are done, what follows them is to be given again with
 * more behind it. PERFMAP_LINE_MAX bytes always get further. 0, or as jit_builder_add: -ENOSPC, -ENOMEM.
 */
int perfmap_parse(struct perfmap *m, struct jit_builder *b, const char *text, size_t len, size_t *ret_used);

#endif
