// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/code/assumptions.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/base/array.h"

#define MOST 0xfffeu
/* Later assumptions were made on the paths of earlier ones; those that share a fate need more passes. */
#define PASSES_MAX 8

void code_assumptions_fini(struct code_assumptions *a)
{
	free(a->v);
	*a = (struct code_assumptions){0};
}

void code_assumptions_clear(struct code_assumptions *a)
{
	a->n = a->next = 0;
}

/* The number of the one that stands for all that share its fate. */
static uint16_t representative(struct code_assumptions *a, uint16_t number)
{
	while (number && a->v[number - 1].like) {
		struct code_assumption *one = &a->v[number - 1];

		one->like = a->v[one->like - 1].like ?: one->like; /* shortens the way for the next time */
		number = one->like;
	}
	return number;
}

int code_assumptions_add(struct code_assumptions *a, struct code_assumption one, bool likely)
{
	if (a->n >= MOST)
		return 0;
	if (array_reserve(&a->v, &a->cap, a->n + 1, sizeof *a->v) < 0)
		return -ENOMEM;
	one.weak |= code_assumptions_is_weak(a, one.before);
	one.like = likely ? representative(a, one.before) : 0;
	one.proven = likely && !one.before;
	a->v[a->n++] = one;
	return 0;
}

bool code_assumptions_is_weak(const struct code_assumptions *a, uint16_t number)
{
	return number && a->v[number - 1].weak;
}

void code_assumptions_prove(struct code_assumptions *a, uint16_t number)
{
	number = representative(a, number);
	if (number)
		a->v[number - 1].proven = true;
}

void code_assumptions_equate(struct code_assumptions *a, uint16_t one, uint16_t other)
{
	one = representative(a, one);
	other = representative(a, other);
	if (one == other)
		return;
	if (!one || !other) {
		code_assumptions_prove(a, one ?: other);
		return;
	}
	a->v[one - 1].like = other;
	a->v[other - 1].proven |= a->v[one - 1].proven;
}

bool code_assumptions_is_proven(struct code_assumptions *a, uint16_t number)
{
	return !number || a->v[representative(a, number) - 1].proven;
}

void code_assumptions_conclude(struct code_assumptions *a)
{
	bool changed = true;

	for (int pass = 0; changed && pass < PASSES_MAX; pass++) {
		changed = false;
		for (size_t i = a->n; i-- > 0;) {
			const uint16_t before = a->v[i].before;

			if (!code_assumptions_is_proven(a, (uint16_t)(i + 1)) ||
			    code_assumptions_is_proven(a, before))
				continue;
			code_assumptions_prove(a, before);
			changed = true;
		}
	}
}
