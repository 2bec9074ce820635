// SPDX-License-Identifier: Apache-2.0
/* How rows are cut into blocks. That every row can be found again is part of each test. */
#include <elf.h>
#include <stdio.h>

#include "agent/base/cleanup.h"
#include "tests/unit/agent/unwind/lookup.h"

#define TEXT 0x401000ull
#define RULES 2048

/* A table under construction; rule 0 is none, rule i has the CFA rsp + 8 i. */
struct table {
	struct elf_rows rows;
	size_t cap;
};

static void table_init(struct table *t, size_t cap)
{
	*t = (struct table){.cap = cap};
	t->rows.rows = calloc(cap, sizeof *t->rows.rows);
	t->rows.rules = calloc(RULES, sizeof *t->rows.rules);
	cr_assert(t->rows.rows && t->rows.rules);
	t->rows.n_rules = RULES;
	t->rows.rules[0] = (struct elf_rule){.cfa_kind = CFA_NONE};
	for (int i = 1; i < RULES; i++)
		t->rows.rules[i] = (struct elf_rule){.cfa_kind = CFA_REG_OFF,
						     .cfa_reg = 7,
						     .cfa_off = 8 * i,
						     .ra = {.kind = REG_CFA_OFF, .off = -8}};
}

static void table_fini(struct table *t)
{
	free(t->rows.rows);
	free(t->rows.rules);
}

#define _cleanup_table_ _cleanup_(table_fini)
#define _cleanup_blocks_ _cleanup_(unwind_blocks_fini)

static void row(struct table *t, uint64_t va, uint32_t rule)
{
	cr_assert_lt(t->rows.n_rows, t->cap);
	t->rows.rows[t->rows.n_rows++] = (struct elf_row){va, rule};
}

static struct unwind_blocks encode(const struct table *t)
{
	struct unwind_blocks b = {0};
	size_t bytes, n;

	cr_assert_eq(unwind_blocks_encode(&b, &t->rows, EM_X86_64), 0);
	cr_assert_eq(unwind_blocks_size(&t->rows, EM_X86_64, &bytes, &n), 0);
	cr_expect_eq(bytes, b.bytes);
	cr_expect_eq(n, b.n);
	for (size_t i = 0; i < b.n; i++) {
		cr_expect_leq(b.blocks[i].len, SEGMENT_BYTES - PROCESS_TABLE_BYTES,
			      "block %zu fits every segment", i);
		cr_expect(unwind_block_valid(&b.blocks[i]), "block %zu", i);
	}
	cr_expect_eq(lookup_check(&b, &t->rows, EM_X86_64), 0, "rows differ");
	return b;
}

Test(block, nothing)
{
	_cleanup_table_ struct table t;
	_cleanup_blocks_ struct unwind_blocks b = {0};

	table_init(&t, 4);
	b = encode(&t);
	cr_expect_eq(b.n, 0);
	row(&t, TEXT, 0);
	row(&t, TEXT + 100, 0);
	b = encode(&t);
	cr_expect_eq(b.n, 0, "a table of gaps has no blocks");
}

Test(block, smallest)
{
	_cleanup_table_ struct table t;
	_cleanup_blocks_ struct unwind_blocks b = {0};
	const struct unwind_table *u;

	table_init(&t, 4);
	row(&t, TEXT + 5, 3);
	row(&t, TEXT + 6, 0);
	b = encode(&t);
	cr_assert_eq(b.n, 1);
	u = (const struct unwind_table *)b.blocks[0].bytes;
	cr_expect_eq(b.blocks[0].va, TEXT + 5);
	cr_expect_eq(b.blocks[0].end, TEXT + 6);
	cr_expect_eq(u->va, TEXT);
	cr_expect_eq(u->n_pages, 1);
	cr_expect_eq(u->n_rows, 1);
	cr_expect_eq(u->n_rules, 2);
}

/* As many rules as an id can name, less the one for what no row covers. */
Test(block, split_by_rules)
{
	static const struct {
		unsigned rules;
		size_t blocks;
	} cases[] = {{1, 1}, {253, 1}, {254, 1}, {255, 2}, {508, 2}, {509, 3}, {1000, 4}};

	for (size_t c = 0; c < ARRAY_SIZE(cases); c++) {
		_cleanup_table_ struct table t;
		_cleanup_blocks_ struct unwind_blocks b = {0};

		table_init(&t, RULES + 1);
		for (unsigned i = 0; i < cases[c].rules; i++)
			row(&t, TEXT + 7 * i, 1 + i);
		row(&t, TEXT + 7 * cases[c].rules, 0);
		b = encode(&t);
		cr_expect_eq(b.n, cases[c].blocks, "%u rules: %zu blocks", cases[c].rules, b.n);
	}
}

/* Rules that the kernel does not tell apart are one. */
Test(block, equal_rules_are_merged)
{
	_cleanup_table_ struct table t;
	_cleanup_blocks_ struct unwind_blocks b = {0};
	const struct unwind_table *u;

	table_init(&t, 1200);
	for (unsigned i = 1; i < RULES; i++)
		t.rows.rules[i] = (struct elf_rule){.cfa_kind = CFA_UNSUPPORTED, .cfa_off = (int32_t)i};
	for (unsigned i = 0; i < 1000; i++)
		row(&t, TEXT + 8 * i, 1 + i);
	row(&t, TEXT + 8000, 0);
	b = encode(&t);
	cr_assert_eq(b.n, 1);
	u = (const struct unwind_table *)b.blocks[0].bytes;
	cr_expect_eq(u->n_rows, 1);
	cr_expect_eq(u->n_rules, 2);
}

/* The most used rules come first: they share the header's cache line. */
Test(block, rules_by_use)
{
	_cleanup_table_ struct table t;
	_cleanup_blocks_ struct unwind_blocks b = {0};
	const struct unwind_rule *rules;

	table_init(&t, 1200);
	for (unsigned i = 0; i < 600; i++) /* rule 9 in every second row, 8 in every fourth, then 1 to 3 */
		row(&t, TEXT + 8 * i, i % 2 ? 9 : i % 4 ? 8 : 1 + i / 4 % 3);
	row(&t, TEXT + 8 * 600, 0);
	b = encode(&t);
	rules = (const struct unwind_rule *)(b.blocks[0].bytes + sizeof(struct unwind_table));
	cr_expect_eq(rules[0].cfa, 72);
	cr_expect_eq(rules[1].cfa, 64);
}

Test(block, split_by_gap)
{
	static const struct {
		uint64_t gap; /* bytes */
		size_t blocks;
	} cases[] = {{16, 1}, {64 * 128, 1}, {64 * 128 + 1, 2}, {1ull << 40, 2}, {1ull << 62, 2}};

	for (size_t c = 0; c < ARRAY_SIZE(cases); c++) {
		_cleanup_table_ struct table t;
		_cleanup_blocks_ struct unwind_blocks b = {0};

		table_init(&t, 8);
		row(&t, TEXT, 1);
		row(&t, TEXT + 50, 0);
		row(&t, TEXT + 50 + cases[c].gap, 2);
		row(&t, TEXT + 99 + cases[c].gap, 0);
		b = encode(&t);
		cr_expect_eq(b.n, cases[c].blocks, "gap of %#llx: %zu blocks",
			     (unsigned long long)cases[c].gap, b.n);
		cr_expect_leq(b.bytes, 1000);
	}
}

/* More rows than a segment holds. */
Test(block, split_by_rows)
{
	enum { N = 2000000 };
	_cleanup_table_ struct table t;
	_cleanup_blocks_ struct unwind_blocks b = {0};

	table_init(&t, N + 1);
	for (unsigned i = 0; i < N; i++)
		row(&t, TEXT + 9 * (uint64_t)i, 1 + i % 3);
	row(&t, TEXT + 9ull * N, 0);
	b = encode(&t);
	cr_expect_geq(b.n, 3);
	cr_expect_leq((double)b.bytes / N, 2.4, "%.2f bytes a row", (double)b.bytes / N);
	for (size_t i = 1; i < b.n; i++)
		cr_expect_eq(b.blocks[i].va, b.blocks[i - 1].end, "no hole before block %zu", i);
}

/* More text than one index covers. */
Test(block, split_by_text)
{
	enum { N = 3000 };
	_cleanup_table_ struct table t;
	_cleanup_blocks_ struct unwind_blocks b = {0};

	table_init(&t, N + 1);
	for (unsigned i = 0; i < N; i++)
		row(&t, TEXT + 65536 * (uint64_t)i, 1 + i % 3);
	row(&t, TEXT + 65536ull * N, 0);
	b = encode(&t);
	cr_expect_geq(b.n, 4);
	for (size_t i = 1; i < b.n; i++)
		cr_expect_eq(b.blocks[i].va, b.blocks[i - 1].end);
}

/* One row over more text than one index covers keeps a beginning, and what follows is not lost. */
Test(block, row_longer_than_a_block)
{
	static const uint64_t lengths[] = {1ull << 27, 1ull << 40, 1ull << 62};

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		_cleanup_table_ struct table t;
		_cleanup_blocks_ struct unwind_blocks b = {0};
		struct lookup l;

		table_init(&t, 4);
		row(&t, TEXT, 1);
		row(&t, TEXT + lengths[i], 2);
		row(&t, TEXT + lengths[i] + 30, 0);
		cr_assert_eq(unwind_blocks_encode(&b, &t.rows, EM_X86_64), 0);
		cr_assert_eq(b.n, 2);
		cr_expect_geq(b.blocks[0].end - TEXT, 16u << 20);
		cr_expect_leq(b.blocks[0].end, TEXT + lengths[i]);
		cr_expect_leq(b.blocks[0].len, SEGMENT_BYTES - PROCESS_TABLE_BYTES);
		lookup_init(&l, &b.blocks[0]);
		cr_expect_eq(lookup_rule(&l, TEXT).cfa, 8);
		cr_expect_eq(lookup_rule(&l, b.blocks[0].end - 1).cfa, 8);
		lookup_fini(&l);
		lookup_init(&l, &b.blocks[1]);
		cr_expect_eq(lookup_rule(&l, TEXT + lengths[i]).cfa, 16);
		lookup_fini(&l);
	}
}

/* Random tables, many rules, dense rows. */
Test(block, random_tables)
{
	unsigned seed = 20260303;

	for (int round = 0; round < 30; round++) {
		_cleanup_table_ struct table t;
		_cleanup_blocks_ struct unwind_blocks b = {0};
		unsigned n = 1 + rand_r(&seed) % 20000, rules = 2 + rand_r(&seed) % (RULES - 2);
		unsigned gap = 1u << rand_r(&seed) % 14;
		uint64_t va = TEXT;
		uint32_t last = 0;

		table_init(&t, n + 1);
		for (unsigned i = 0; i < n; i++) {
			last = (last + 1 + rand_r(&seed) % (rules - 1)) % rules;
			row(&t, va, last);
			va += 1 + rand_r(&seed) % gap;
		}
		row(&t, va, 0);
		b = encode(&t);
	}
}

/* What a walk reads of a block: it must lie inside, and lead to a rule. */
static bool is_inside(const struct unwind_block *b)
{
	struct unwind_table t;
	const uint32_t *index;

	memcpy(&t, b->bytes, sizeof t);
	index = (const uint32_t *)(b->bytes + t.index);
	if (t.index + (t.n_pages + 1ull) * 4 > b->len || t.rows + 2ull * t.n_rows > b->len ||
	    sizeof t + 8ull * t.n_rules > b->len || t.index % 4 || t.rows % 2 || t.n_pages > b->len)
		return false;
	for (uint32_t page = 0; page <= t.n_pages; page++)
		if (index[page] > t.n_rows)
			return false;
	for (int64_t i = -1; i < (int64_t)t.n_rows; i++)
		if (b->bytes[t.rows + 2 * i] >= t.n_rules)
			return false;
	return true;
}

Test(block, a_damaged_block_is_refused_or_harmless)
{
	_cleanup_table_ struct table t;
	unsigned refused = 0, harmless = 0;

	table_init(&t, 400);
	for (unsigned i = 0; i < 300; i++)
		row(&t, TEXT + i * 24, 1 + i % 37);
	row(&t, TEXT + 300 * 24, 0);
	_cleanup_blocks_ struct unwind_blocks b = encode(&t);
	cr_assert_eq(b.n, 1);
	for (uint32_t at = 0; at < b.blocks[0].len; at++) {
		for (unsigned bit = 0; bit < 8; bit++) {
			b.blocks[0].bytes[at] ^= (uint8_t)(1u << bit);
			if (!unwind_block_valid(&b.blocks[0])) {
				refused++;
			} else {
				harmless++;
				cr_expect(is_inside(&b.blocks[0]), "byte %u, bit %u", at, bit);
			}
			b.blocks[0].bytes[at] ^= (uint8_t)(1u << bit);
		}
	}
	cr_expect_gt(refused, 1000);
	cr_expect_gt(harmless, 1000); /* rules, and rows that are only wrong */
	b.blocks[0].len--;
	cr_expect(!unwind_block_valid(&b.blocks[0]));
	b.blocks[0].len++;
	b.blocks[0].end = b.blocks[0].va;
	cr_expect(!unwind_block_valid(&b.blocks[0]));
}
