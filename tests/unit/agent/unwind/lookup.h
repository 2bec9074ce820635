// SPDX-License-Identifier: Apache-2.0
/* Looks rules up in encoded blocks, by the search that the BPF program has. */
#ifndef PROFLET_TESTS_UNWIND_LOOKUP_H
#define PROFLET_TESTS_UNWIND_LOOKUP_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "agent/elf/cfi/rows.h"
#include "agent/unwind/block.h"
#include "agent/unwind/pack.h"
#include "bpf/unwind.h"

/* A block in a segment of its own. */
struct lookup {
	struct segment *segment;
	struct unwind_state state;
};

#define LOOKUP_OFFSET PROCESS_TABLE_BYTES

static inline void lookup_init(struct lookup *l, const struct unwind_block *b)
{
	const struct unwind_table *t;

	l->segment = calloc(1, sizeof *l->segment);
	cr_assert_not_null(l->segment);
	cr_assert_leq(b->len, SEGMENT_BYTES - LOOKUP_OFFSET);
	memcpy(l->segment->bytes + LOOKUP_OFFSET, b->bytes, b->len);
	unwind_block_place(l->segment->bytes + LOOKUP_OFFSET, LOOKUP_OFFSET, 1);
	t = (const struct unwind_table *)(l->segment->bytes + LOOKUP_OFFSET);
	l->state = (struct unwind_state){.table_va = t->va,
					 .n_pages = t->n_pages,
					 .index = t->index,
					 .rows = t->rows,
					 .rules = LOOKUP_OFFSET + (__u32)sizeof *t};
	cr_expect_eq(t->rows + t->n_rows * 2, LOOKUP_OFFSET + b->len, "the rows are the block's end");
	cr_expect_leq(t->n_rules, TABLE_RULES_MAX);
}

static inline void lookup_fini(struct lookup *l)
{
	free(l->segment);
}

static inline struct unwind_rule lookup_rule(const struct lookup *l, uint64_t va)
{
	uint64_t o = va - l->state.table_va, bits;
	struct unwind_rule rule = {.kind = UNWIND_CFA_NONE};

	if (o >> PAGE_SHIFT_ROWS < l->state.n_pages) {
		bits = table_rule(l->segment, &l->state, o);
		memcpy(&rule, &bits, sizeof rule);
	}
	return rule;
}

/*
 * Compares every row of the table with what its block says at the row's first and last address, and checks
 * that the blocks ascend and cover everything but gaps. Returns how many rows differ.
 */
static inline size_t lookup_check(const struct unwind_blocks *blocks, const struct elf_rows *rows,
				  uint16_t machine)
{
	size_t wrong = 0, i = 0, bytes = 0;

	for (size_t k = 0; k < blocks->n; k++) {
		const struct unwind_block *b = &blocks->blocks[k];
		struct lookup l;

		cr_expect_lt(b->va, b->end);
		cr_expect(k == 0 || blocks->blocks[k - 1].end <= b->va, "block %zu overlaps the one before",
			  k);
		lookup_init(&l, b);
		for (; i + 1 < rows->n_rows && rows->rows[i].va < b->end; i++) {
			struct unwind_rule want = unwind_rule_pack(&rows->rules[rows->rows[i].rule], machine),
					   got[2];

			if (rows->rows[i].va < b->va) { /* in no block */
				wrong += want.kind != UNWIND_CFA_NONE;
				continue;
			}
			got[0] = lookup_rule(&l, rows->rows[i].va);
			got[1] = lookup_rule(&l, rows->rows[i + 1].va - 1);
			wrong += memcmp(&got[0], &want, sizeof want) != 0 ||
				 memcmp(&got[1], &want, sizeof want) != 0;
		}
		lookup_fini(&l);
		bytes += b->len;
	}
	cr_expect_eq(bytes, blocks->bytes);
	for (; i + 1 < rows->n_rows; i++)
		wrong += unwind_rule_pack(&rows->rules[rows->rows[i].rule], machine).kind != UNWIND_CFA_NONE;
	return wrong;
}

#endif
