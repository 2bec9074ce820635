// SPDX-License-Identifier: Apache-2.0
/*
 * Which stacks of a recording are wanted, and how their frames are told apart. Calls that were inlined become
 * frames of their own.
 */
#ifndef PROFLET_RECORDING_SELECTION_H
#define PROFLET_RECORDING_SELECTION_H

#include <stdbool.h>

#include "agent/output/profile.h"

struct stack_selection;

/* Patterns are extended regular expressions (regex(7)), which match anywhere in a function's name. */
struct stack_selection_options {
	const char *focus;  /* only stacks with a function that matches; NULL: all */
	const char *ignore; /* without stacks that have one that matches; NULL: none */
	bool lines;	    /* functions are told apart by source line */
};

/* 0; -EINVAL with *ret_why, a line without newline (owned): a pattern is not valid; -ENOMEM. */
int stack_selection_new(struct stack_selection **ret, const struct stack_selection_options *options,
			char **ret_why);
void stack_selection_free(struct stack_selection *s); /* NULL is fine */
/*
 * 1: the stack is wanted, and *ret is as it is to be shown, valid until the next call; 0: it is not; -ENOMEM.
 */
int stack_selection_apply(struct stack_selection *s, const struct output_stack *stack,
			  struct output_stack *ret);

#endif
