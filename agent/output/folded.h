// SPDX-License-Identifier: Apache-2.0
/*
 * Folded stacks, the text that flamegraph tools read: `PROCESS;ROOT;...;LEAF COUNT`, one line per distinct
 * stack, sorted by the bytes of the stack. Kernel frames end in `_[k]`. ";" in a name becomes ":".
 */
#ifndef PROFLET_OUTPUT_FOLDED_H
#define PROFLET_OUTPUT_FOLDED_H

#include <stdbool.h>
#include <stdio.h>

struct output_profile;

struct output_folded_options {
	bool by_container; /* the container's name, else 12 digits of its id, else "host", before the process
			    */
};

/* 0, -ENOMEM, -EOVERFLOW (the lines of one process pass 256 MiB), -EIO when `f` failed. */
int output_folded_write(const struct output_profile *p, const struct output_folded_options *options, FILE *f);

#endif
