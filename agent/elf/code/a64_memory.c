// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/code/a64_memory.h"

#include <errno.h>

#include "agent/base/cleanup.h"
#include "agent/elf/code/a64_flow.h"
#include "agent/elf/code/a64_rows.h"

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

/*
 * The code of which the bytes are known may begin or end in the middle of a function. Of others than the one
 * that ran, more may be known already, or be found out from other bytes.
 */
static void leave_others(struct memory_rows *r, const struct memory_code *c)
{
	for (size_t i = 0; i < r->n; i++) {
		const uint32_t end = i + 1 < r->n ? r->v[i + 1].off : c->n;

		if (r->v[i].rule.cfa_kind == CFA_NONE && (c->wanted < r->v[i].off || c->wanted >= end))
			r->v[i].rule.cfa_off = NO_RULE_PENDING;
	}
}

int a64_memory_rows(struct memory_rows *ret, const struct memory_code *code)
{
	static const struct memory_analysis analysis = {a64_read_piece, add_unknown};
	_cleanup_(memory_rows_fini) struct memory_rows made = {0};
	int r;

	if (!code->n || code->n > MEMORY_CODE_MAX)
		return -EFBIG;
	r = memory_rows_analyse(&made, code, &analysis);
	if (r < 0)
		return r;
	if (!code->function)
		leave_others(&made, code);
	*ret = made;
	made = (struct memory_rows){0};
	return 0;
}
