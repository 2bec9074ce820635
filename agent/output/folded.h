// SPDX-License-Identifier: Apache-2.0
/*
 * Writes folded stacks, the text format of flame graph tools: `PROCESS;ROOT;...;LEAF COUNT`, one line per
 * distinct stack, sorted by the bytes of the stack. Kernel frames end in `_[k]`, functions of a language
 * runtime in their file: `Class.method (file.py)`. A ";" in a name becomes ":".
 */
#ifndef PROFLET_OUTPUT_FOLDED_H
#define PROFLET_OUTPUT_FOLDED_H

#include <stdbool.h>
#include <stdio.h>

struct output_profile;

struct output_folded_options {
	bool by_thread;	   /* the thread's name comes behind the process */
	bool by_container; /* begin each stack with the container: name, 12 digits of its id, or "host" */
};

/* 0, -ENOMEM, -EOVERFLOW (the lines of one process exceed 256 MiB), -EIO when `f` failed. */
int output_folded_write(const struct output_profile *p, const struct output_folded_options *options, FILE *f);

#endif
