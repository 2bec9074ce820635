// SPDX-License-Identifier: Apache-2.0
/*
 * Where the instructions up to one say nothing of the frame, those behind it may: at a `ret`, and at a jump
 * to another function, the return address is on top of the stack and rbp is the caller's. This steps back
 * from there. Rank 1, private to elf/.
 */
#ifndef PROFLET_ELF_FLOW_BACK_H
#define PROFLET_ELF_FLOW_BACK_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/elf/code/flow.h"
#include "agent/elf/code/x86.h"

/* Where the return address is. */
struct flow_back {
	uint8_t reg;  /* in this register; X86_NO_REG: on the stack */
	bool guessed; /* that the function ends there */
	int32_t at;   /* there, from rsp */
};

/* Before an instruction with which a function ends; `guessed`: it seems to be one. */
struct flow_back flow_back_exit(bool guessed);
bool flow_back_same(const struct flow_back *a, const struct flow_back *b);
/*
 * Steps from behind an instruction, after which the next one always follows, to before it. False: where the
 * return address is there is not known.
 */
bool flow_back_step(struct flow_back *b, const struct x86_insn *insn);
/*
 * The same as a state: the CFA is right above the return address, or where rsp is without it. What a guess
 * leads to is checked.
 */
struct flow_state flow_back_state(const struct flow_back *b);

#endif
