// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/cfi/cfi_output.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/base/array.h"

#define ROWS_MIN 1024
/*
 * Compilers write 6 to 12 bytes of call-frame information for a row. The estimate is lower, so that the array
 * seldom grows; pages of it that no row uses cost no memory.
 */
#define SECTION_BYTES_PER_ROW 4

int cfi_output_init(struct cfi_output *out)
{
	return ruleset_init(&out->rules);
}

static int reserve_rows(struct cfi_output *out, size_t cap)
{
	if (array_resize(&out->rows, cap, sizeof(*out->rows)) < 0)
		return -ENOMEM;
	out->rows_cap = cap;
	return 0;
}

int cfi_output_reserve(struct cfi_output *out, size_t section_bytes)
{
	size_t cap = out->n_rows + section_bytes / SECTION_BYTES_PER_ROW + 1;

	if (cap > CFI_ROWS_MAX)
		cap = CFI_ROWS_MAX;
	return cap > out->rows_cap ? reserve_rows(out, cap) : 0;
}

void cfi_output_fini(struct cfi_output *out)
{
	ruleset_fini(&out->rules);
	free(out->rows);
	free(out->states);
	*out = (struct cfi_output){0};
}

int cfi_output_grow(struct cfi_output *out)
{
	if (out->rows_cap >= CFI_ROWS_MAX)
		return -EFBIG;
	return reserve_rows(out,
			    out->rows_cap < CFI_ROWS_MAX / 2 ? out->rows_cap * 2 + ROWS_MIN : CFI_ROWS_MAX);
}

int cfi_output_add(struct cfi_output *out, uint32_t off, const struct elf_rule *rule)
{
	int64_t index = ruleset_intern(&out->rules, rule);

	return index < 0 ? (int)index : cfi_output_add_index(out, off, (uint32_t)index);
}
