// SPDX-License-Identifier: Apache-2.0
/*
 * jit-<pid>.dump: what code a runtime made, moved and when
 * (tools/perf/Documentation/jitdump-specification.txt of Linux, version 1). Times are not used: the records
 * of a file follow one another. Pure; foreign bytes. Rank 2.
 */
#ifndef PROFLET_SYMBOL_JITDUMP_H
#define PROFLET_SYMBOL_JITDUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jit_builder;

#define JITDUMP_BYTES_NEEDED 4096u /* from where a record starts, to get further */

struct jitdump {
	bool begun;	/* the header was read */
	bool swapped;	/* of the other byte order */
	bool ended;	/* closed, or not to be understood from here on: nothing more is to be read */
	uint64_t n_bad; /* records that make no sense */
};

/*
 * Takes records, the header first. *ret_used bytes (also on -ENOSPC) are done; that can be more than `len`,
 * because the code itself is not looked at. Less than `len`: give what follows again, with more behind it. 0;
 * -ENOSPC, -ENOMEM as jit_builder_add; -EBADMSG: this is no such file.
 */
int jitdump_parse(struct jitdump *d, struct jit_builder *b, const uint8_t *bytes, size_t len,
		  uint64_t *ret_used);

#endif
