// SPDX-License-Identifier: Apache-2.0
#include "agent/report/cut_stacks.h"

#include <stdlib.h>
#include <string.h>

/* The name as it is counted: foreign bytes, so that only printable ones are kept. */
static void shorten(char ret[CUT_STACKS_NAME_MAX], const char *module)
{
	size_t n = 0;

	for (; module[n] && n < CUT_STACKS_NAME_MAX - 1; n++)
		ret[n] = module[n] > ' ' && module[n] <= '~' ? module[n] : '?';
	ret[n] = '\0';
}

void cut_stacks_add(struct cut_stacks *c, const char *module, enum unwind_ending ending)
{
	char name[CUT_STACKS_NAME_MAX];
	struct cut_stack *least = NULL;

	shorten(name, module);
	for (size_t i = 0; i < c->n; i++) {
		struct cut_stack *s = &c->v[i];

		if (s->ending == ending && strcmp(s->module, name) == 0) {
			s->samples++;
			return;
		}
		if (!least || s->samples < least->samples)
			least = s;
	}
	if (c->n < CUT_STACKS_MAX) {
		least = &c->v[c->n++];
		least->samples = 0;
	}
	least->too_many = least->samples;
	least->samples++;
	least->ending = ending;
	strcpy(least->module, name);
}

static int by_samples(const void *a, const void *b)
{
	const struct cut_stack *x = a, *y = b;

	return x->samples > y->samples ? -1 : x->samples < y->samples;
}

size_t cut_stacks_top(const struct cut_stacks *c, struct cut_stack *ret, size_t max)
{
	struct cut_stack all[CUT_STACKS_MAX];
	const size_t n = c->n < max ? c->n : max;

	memcpy(all, c->v, c->n * sizeof all[0]);
	qsort(all, c->n, sizeof all[0], by_samples);
	memcpy(ret, all, n * sizeof all[0]);
	return n;
}
