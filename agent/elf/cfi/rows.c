// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/cfi/rows.h"

#include <stdlib.h>

void elf_rows_free(struct elf_rows *rows)
{
	if (!rows)
		return;
	free(rows->rows);
	free(rows->rules);
	free(rows->skipped);
	free(rows->overridden);
	free(rows);
}

const struct elf_row *elf_rows_find(const struct elf_rows *rows, uint64_t va)
{
	size_t low = 0, n = rows->n_rows;

	while (n > 0) {
		size_t half = n / 2;

		if (rows->rows[low + half].va <= va) {
			low += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return low ? &rows->rows[low - 1] : NULL;
}
