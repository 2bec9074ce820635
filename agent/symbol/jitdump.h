// SPDX-License-Identifier: Apache-2.0
/*
 * Parses jit-<pid>.dump, in which a runtime records the code that it generated or moved
 * (tools/perf/Documentation/jitdump-specification.txt of Linux, version 1). Time stamps are ignored, since
 * records are in the order of time. Pure; foreign bytes. Rank 2.
 */
#ifndef PROFLET_SYMBOL_JITDUMP_H
#define PROFLET_SYMBOL_JITDUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jit_builder;

#define JITDUMP_BYTES_NEEDED 4096u /* bytes from the start of a record that always suffice to parse it */

struct jitdump {
	bool begun;	/* the header was read */
	bool swapped;	/* the file has the other byte order */
	bool ended;	/* the runtime closed it, or the following bytes cannot be parsed: read no further */
	uint64_t n_bad; /* malformed records */
};

/*
 * Parses records, the header first. *ret_used bytes are consumed (also on -ENOSPC). This can be more than
 * `len`, because the code in a record is skipped. If it is less than `len`, pass the remaining bytes again,
 * followed by more. 0; -ENOSPC, -ENOMEM as jit_builder_add; -EBADMSG: this is not a jitdump file.
 */
int jitdump_parse(struct jitdump *d, struct jit_builder *b, const uint8_t *bytes, size_t len,
		  uint64_t *ret_used);

#endif
