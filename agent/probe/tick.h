// SPDX-License-Identifier: Apache-2.0
/* Kernel addresses that the program of the tick needs, from the kernel's symbols. Private to agent/probe. */
#ifndef PROFLET_PROBE_TICK_H
#define PROFLET_PROBE_TICK_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct tick_symbols {
	uint64_t function;		/* the callback of the tick's timer */
	uint64_t entry_text, entry_end; /* the kernel's entry code */
};

/* Reads the text of /proc/kallsyms. 0; -EPERM when addresses are hidden, -ENOENT when one is missing. */
int tick_symbols_read(FILE *kallsyms, struct tick_symbols *ret);

#endif
