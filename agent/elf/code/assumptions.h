// SPDX-License-Identifier: Apache-2.0
/*
 * Steps of a function that are not certain: that a call returns, that a table of jumps has this entry. What
 * rests on one is kept only if it is proven: a path that rests on it ends as it must, or meets one that is
 * certain. Rank 1, private to elf/.
 */
#ifndef PROFLET_ELF_ASSUMPTIONS_H
#define PROFLET_ELF_ASSUMPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * `from` is the call or jump; the same as `to` where no path leads to. Weak: it proves nothing for the
 * function, as behind a call and padding another one may begin.
 */
struct code_assumption {
	uint32_t from, to, state;
	uint16_t before; /* number of the one on which `from` rests; 0: `from` is certain */
	uint16_t like;	 /* number of another one with which it shares its fate; 0: none */
	bool weak, proven;
};

/* Zero it before the first use. Assumptions have the numbers 1 to n; 0 stands for what is certain. */
struct code_assumptions {
	struct code_assumption *v; /* owned; of number 1 first */
	size_t n, cap;
	size_t next; /* index of the first that was not made yet */
};

void code_assumptions_fini(struct code_assumptions *a);
void code_assumptions_clear(struct code_assumptions *a);
/*
 * Adds one, of which like and proven are set here, and which is weak if `before` is. `likely`: there is no
 * more doubt in `to` than in `from`, unless another path contradicts. When there are too many it is left out.
 * 0, -ENOMEM.
 */
int code_assumptions_add(struct code_assumptions *a, struct code_assumption one, bool likely);
bool code_assumptions_is_weak(const struct code_assumptions *a, uint16_t number);
void code_assumptions_prove(struct code_assumptions *a, uint16_t number);
/* Paths that rest on these have met, and agree: one is as good as the other. */
void code_assumptions_equate(struct code_assumptions *a, uint16_t one, uint16_t other);
/* To be called when all are made: proves those on whose paths others were made that are proven. */
void code_assumptions_conclude(struct code_assumptions *a);
/* Whether what rests on it is kept. */
bool code_assumptions_is_proven(struct code_assumptions *a, uint16_t number);

#endif
