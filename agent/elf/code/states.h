// SPDX-License-Identifier: Apache-2.0
/*
 * Numbers the states of instructions (flow.h), so that each different one is stored once. Rank 1, private to
 * elf/.
 */
#ifndef PROFLET_ELF_STATES_H
#define PROFLET_ELF_STATES_H

#include <stddef.h>

#include "agent/elf/code/flow.h"

#define NO_STATE 0
/* The CFA is lost, on another stack for example. Where such a path meets others there are no rows, either. */
#define LOST_STATE 1

/* Zero it, then call code_states_init. */
struct code_states {
	struct flow_state *v; /* owned; by number. [NO_STATE] and [LOST_STATE] are zeros */
	size_t n, cap;
	uint32_t *table; /* owned; numbers by the hash of their states; a power of two */
	size_t n_table;
};

/* 0, -ENOMEM. */
int code_states_init(struct code_states *s);
void code_states_fini(struct code_states *s);
/* The number of the state; NO_STATE: no memory. */
uint32_t code_states_add(struct code_states *s, const struct flow_state *state);
/* Whether both have the same rule. */
bool code_states_same_rule(const struct code_states *s, uint32_t a, uint32_t b);

#endif
