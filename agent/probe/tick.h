// SPDX-License-Identifier: Apache-2.0
/* What the tick's program has to know of the kernel: addresses that only its symbols tell. Inside probe/. */
#ifndef PROFLET_PROBE_TICK_H
#define PROFLET_PROBE_TICK_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct tick_symbols {
	uint64_t function;		/* of the tick's timer */
	uint64_t entry_text, entry_end; /* the kernel's entry code */
};

/* From the text of /proc/kallsyms. 0; -EPERM when addresses are hidden, -ENOENT when one is not there. */
int tick_symbols_read(FILE *kallsyms, struct tick_symbols *ret);

#endif
