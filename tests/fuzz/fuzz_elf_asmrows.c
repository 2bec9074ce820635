// SPDX-License-Identifier: Apache-2.0
/*
 * The first bytes say which functions are known, or that the code is searched for that of GHC; the others are
 * code without call-frame information. The rows
 * must be inside the code, in order, and make a table.
 */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "agent/elf/code/asmrows.h"
#include "agent/elf/code/haskell.h"
#include "agent/elf/code/starts.h"

#define VA 0x1000u
#define CODE_BYTES_MAX 4096u

static void require(int condition)
{
	if (!condition)
		abort();
}

static void check_spans(const struct row_spans *spans, uint64_t end)
{
	uint64_t at = VA;

	for (size_t i = 0; i < spans->n; i++) {
		const struct row_span *s = &spans->v[i];
		const struct cfi_row *rows = spans->out.rows + s->first;

		require(s->start < s->end && s->end <= end);
		require(s->start >= at);
		require(s->n > 0 && s->first + s->n <= spans->out.n_rows && rows[0].off == 0);
		for (uint32_t k = 1; k < s->n; k++)
			require(rows[k].off > rows[k - 1].off && rows[k].off < s->end - s->start);
		at = s->end;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct code_start known[8];
	struct code_starts starts = {.v = known};
	struct code_piece piece = {.va = VA};
	struct elf_rows *rows = NULL;
	struct row_spans spans = {0};
	uint64_t at = VA;
	int r;

	if (size < 10)
		return 0;
	for (; starts.n < (data[0] & 7u); at += 8 * (data[starts.n] + 1ull))
		known[starts.n++] = (struct code_start){.va = at, .certain = data[starts.n] & 1};
	piece.starts = data[0] & 8 ? &starts : NULL;
	piece.code = data + 8;
	piece.n = size - 8 < CODE_BYTES_MAX ? (uint32_t)(size - 8) : CODE_BYTES_MAX;
	require(row_spans_init(&spans, NULL, 0) == 0);
	if (data[0] & 16) { /* with the rule of GHC's StgRun */
		const struct elf_rule rule = {.cfa_kind = CFA_REG_OFF,
					      .cfa_reg = 7,
					      .cfa_off = 16440,
					      .ra = {REG_CFA_OFF, 0, 0, -8}};
		const int64_t index = ruleset_intern(&spans.out.rules, &rule);

		require(index > 0);
		spans.out.stg_run = (uint32_t)index;
		require(haskell_read_piece(&spans, VA, piece.code, piece.n) == 0);
	} else {
		require(asmrows_read_piece(&spans, &piece) == 0);
	}
	check_spans(&spans, VA + piece.n);
	r = row_spans_lay_out(&spans, &rows);
	require(r == 0 || r == -ENODATA);
	elf_rows_free(rows);
	row_spans_fini(&spans);
	return 0;
}
