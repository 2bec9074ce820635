// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/cfi/rows.h"

#include <stdlib.h>

#include "agent/base/array.h"

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
	size_t next = array_first(rows->n_rows, i, rows->rows[i].va > va);

	return next ? &rows->rows[next - 1] : NULL;
}
