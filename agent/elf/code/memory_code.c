// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/code/memory_code.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"

void memory_rows_fini(struct memory_rows *r)
{
	free(r->v);
	*r = (struct memory_rows){0};
}

int memory_rows_add(struct memory_rows *r, uint32_t off, const struct elf_rule *rule)
{
	struct memory_row *last = r->n ? &r->v[r->n - 1] : NULL;

	if (last && memcmp(&last->rule, rule, sizeof *rule) == 0)
		return 0;
	if (last && last->off == off) {
		last->rule = *rule;
		return 0;
	}
	if (array_reserve(&r->v, &r->cap, r->n + 1, sizeof *r->v) < 0)
		return -ENOMEM;
	r->v[r->n++] = (struct memory_row){off, *rule};
	return 0;
}
