// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/code/memory_code.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/elf/cfi/rows.h"
#include "agent/elf/code/starts.h"

DEFINE_CLEANUP(struct elf_rows *, elf_rows_free)

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

uint8_t memory_code_flags(const struct memory_code *c)
{
	return c->function && !c->single ? 0 : RULE_CHECKED;
}

static int analyse(struct elf_rows **ret, const struct memory_code *c, const struct memory_analysis *by)
{
	_cleanup_(row_spans_fini) struct row_spans spans = {0};
	struct code_start start = {.va = c->va, .certain = true};
	const struct code_starts starts = {.v = &start, .n = 1};
	const struct code_piece piece = {.va = c->va,
					 .code = c->code,
					 .n = c->n,
					 .starts = c->function ? &starts : NULL,
					 .generated = true,
					 .single = c->single};
	int r = row_spans_init(&spans, NULL, 0);

	if (r == 0)
		r = by->read_piece(&spans, &piece);
	return r < 0 ? r : row_spans_lay_out(&spans, ret);
}

/* Copies what the analysis has found, and fills its gaps. */
static int copy_rows(struct memory_rows *r, const struct memory_code *c, const struct memory_analysis *by,
		     const struct elf_rows *rows)
{
	uint32_t at = 0;
	int e = 0;

	for (size_t i = 0; i < rows->n_rows && e == 0; i++) {
		const uint64_t to = i + 1 < rows->n_rows ? rows->rows[i + 1].va - c->va : c->n;
		const uint32_t off = (uint32_t)(rows->rows[i].va - c->va);
		struct elf_rule rule = rows->rules[rows->rows[i].rule];

		if (rule.cfa_kind == CFA_NONE)
			continue; /* the next row finds the gap */
		if (off > at)
			e = by->add_unknown(r, c, at, off);
		rule.flags |= memory_code_flags(c);
		if (e == 0)
			e = memory_rows_add(r, off, &rule);
		at = (uint32_t)to;
	}
	return e == 0 && at < c->n ? by->add_unknown(r, c, at, c->n) : e;
}

int memory_rows_analyse(struct memory_rows *r, const struct memory_code *code,
			const struct memory_analysis *analysis)
{
	_cleanup_(elf_rows_free_p) struct elf_rows *rows = NULL;
	const int e = analyse(&rows, code, analysis);

	if (e == 0)
		return copy_rows(r, code, analysis, rows);
	return e == -ENODATA ? analysis->add_unknown(r, code, 0, code->n) : e;
}
