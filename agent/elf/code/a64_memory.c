// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/code/a64_memory.h"

#include <errno.h>

#include "agent/base/cleanup.h"
#include "agent/elf/cfi/row_spans.h"
#include "agent/elf/cfi/rows.h"
#include "agent/elf/code/a64_flow.h"
#include "agent/elf/code/a64_rows.h"
#include "agent/elf/code/starts.h"

DEFINE_CLEANUP(struct elf_rows *, elf_rows_free)

static int analyse(struct elf_rows **ret, const struct memory_code *c)
{
	_cleanup_(row_spans_fini) struct row_spans spans = {0};
	struct code_start start = {.va = c->va, .certain = true};
	const struct code_starts starts = {.v = &start, .n = 1};
	const struct code_piece piece = {.va = c->va,
					 .code = c->code,
					 .n = c->n,
					 .starts = c->function ? &starts : NULL,
					 .generated = true};
	int r = row_spans_init(&spans, NULL, 0);

	if (r == 0)
		r = a64_read_piece(&spans, &piece);
	return r < 0 ? r : row_spans_lay_out(&spans, ret);
}

/* Rows of [from, to), which the analysis does not know. */
static int add_unknown(struct memory_rows *r, const struct memory_code *c, uint32_t from, uint32_t to)
{
	const struct elf_rule by_record = {.cfa_kind = CFA_REG_OFF,
					   .cfa_reg = A64_FP,
					   .cfa_off = 16,
					   .flags = c->function ? 0 : RULE_CHECKED,
					   .fp = {.kind = REG_CFA_OFF, .off = -16},
					   .ra = {.kind = REG_CFA_OFF, .off = -8}};
	const bool ran = c->wanted >= from && c->wanted < to;
	const struct elf_rule unknown = {.cfa_kind = CFA_NONE,
					 .cfa_off = ran || c->function ? NO_RULE_REFUSED : NO_RULE_PENDING};

	return memory_rows_add(r, from, c->frame_pointer ? &by_record : &unknown);
}

static int copy_rows(struct memory_rows *r, const struct memory_code *c, const struct elf_rows *rows)
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
			e = add_unknown(r, c, at, off);
		rule.flags |= c->function ? 0 : RULE_CHECKED;
		if (e == 0)
			e = memory_rows_add(r, off, &rule);
		at = (uint32_t)to;
	}
	return e == 0 && at < c->n ? add_unknown(r, c, at, c->n) : e;
}

int a64_memory_rows(struct memory_rows *ret, const struct memory_code *code)
{
	_cleanup_(elf_rows_free_p) struct elf_rows *rows = NULL;
	_cleanup_(memory_rows_fini) struct memory_rows made = {0};
	int r;

	if (!code->n || code->n > MEMORY_CODE_MAX)
		return -EFBIG;
	r = analyse(&rows, code);
	if (r == 0)
		r = copy_rows(&made, code, rows);
	else if (r == -ENODATA)
		r = add_unknown(&made, code, 0, code->n);
	if (r < 0)
		return r;
	*ret = made;
	made = (struct memory_rows){0};
	return 0;
}
