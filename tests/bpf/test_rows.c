// SPDX-License-Identifier: Apache-2.0
/* The search for a row, four at a time, against a linear one. */
#include "tests/bpf/machine.h"

#define PAGE 128ull

/* The i-th of the rules that differ in nothing but their CFA. */
static struct elf_rule rule_number(unsigned i)
{
	return RULE_SP(8 * ((int32_t)i + 1));
}

/* The state that unwind_mapping() leaves for a block in segment 0. */
static struct unwind_state state_of(const struct machine *m, uint32_t ref)
{
	uint32_t at = ref_offset(ref);
	const struct unwind_table *t =
		(const struct unwind_table *)(m->segments[ref_segment(ref)]->bytes + at);

	return (struct unwind_state){.segment = ref_segment(ref),
				     .table_va = t->va,
				     .n_pages = t->n_pages,
				     .index = t->index,
				     .rows = t->rows,
				     .rules = at + (uint32_t)sizeof *t};
}

/* The CFA offset of the row that covers va; 0 before the first. */
static int32_t naive(const struct machine_row *rows, size_t n, uint64_t va)
{
	int32_t cfa = 0;

	for (size_t i = 0; i < n && rows[i].va <= va; i++)
		cfa = rows[i].rule.cfa_kind == CFA_NONE ? 0 : rows[i].rule.cfa_off;
	return cfa;
}

/* Looks every address of every block up. */
static void check_all(const struct machine_row *rows, size_t n, const char *what)
{
	_cleanup_machine_ struct machine *m = machine_new();
	struct unwind_blocks blocks = machine_encode(rows, n);
	unsigned wrong = 0;

	for (size_t i = 0; i < blocks.n; i++) {
		const struct unwind_block *b = &blocks.blocks[i];
		uint32_t segment = i % MACHINE_SEGMENTS, ref = machine_place(m, segment, b);
		struct unwind_state t = state_of(m, ref);

		/* what lies behind the block must not matter */
		memset(m->segments[segment]->bytes + ref_offset(ref) + b->len, 0xff, REF_ALIGN);
		for (uint64_t va = b->va; va < b->end; va++) {
			uint64_t rule = table_rule(m->segments[segment], &t, va - t.table_va);

			wrong += (int32_t)rule != naive(rows, n, va);
		}
	}
	cr_expect_eq(wrong, 0, "%s: %u addresses with the wrong rule", what, wrong);
	unwind_blocks_fini(&blocks);
}

Test(rows, so_many_in_a_page)
{
	static const unsigned counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 27, 28, 100, 127, 128};

	for (size_t c = 0; c < ARRAY_SIZE(counts); c++) {
		/* a page with one row before and one after, so that the page is first, last and between */
		struct machine_row rows[128 + 3];
		size_t n = 0;
		char what[32];

		rows[n++] = (struct machine_row){0x1000, rule_number(200)};
		for (unsigned i = 0; i < counts[c]; i++)
			rows[n++] = (struct machine_row){0x1080 + i * 128 / counts[c], rule_number(i)};
		rows[n++] = (struct machine_row){0x1100, rule_number(201)};
		rows[n++] = (struct machine_row){0x1180, RULE_NONE};
		snprintf(what, sizeof what, "%u rows", counts[c]);
		check_all(rows, n, what);
		check_all(rows + 1, n - 1, what);
		check_all(rows, n - 2, what);
	}
}

/* A row holds over pages that have none of their own. */
Test(rows, empty_pages)
{
	const struct machine_row rows[] = {{0x1010, rule_number(0)},
					   {0x1000 + 9 * PAGE + 127, rule_number(1)},
					   {0x1000 + 20 * PAGE, rule_number(2)},
					   {0x1000 + 40 * PAGE + 1, RULE_NONE}};

	check_all(rows, ARRAY_SIZE(rows), "empty pages");
}

/* The first page begins before the first row: nothing is known there, nor after the last page. */
Test(rows, outside)
{
	_cleanup_machine_ struct machine *m = machine_new();
	const struct machine_row rows[] = {
		{0x1050, rule_number(4)}, {0x1058, rule_number(5)}, {0x1110, RULE_NONE}};
	struct unwind_blocks blocks = machine_encode(rows, ARRAY_SIZE(rows));
	struct unwind_state t;

	cr_assert_eq(blocks.n, 1);
	t = state_of(m, machine_place(m, 0, &blocks.blocks[0]));
	cr_expect_eq(t.table_va, 0x1000);
	cr_expect_eq(t.n_pages, 3);
	cr_expect_eq(table_rule(m->segments[0], &t, 0) >> 48, UNWIND_CFA_NONE);
	cr_expect_eq(table_rule(m->segments[0], &t, 0x4f) >> 48, UNWIND_CFA_NONE);
	cr_expect_eq((int32_t)table_rule(m->segments[0], &t, 0x50), 40);
	cr_expect_eq((int32_t)table_rule(m->segments[0], &t, 0x10f), 48);
	unwind_blocks_fini(&blocks);
}

/* Below the table's first page and past its last, the walk finds no row; at both ends of it, it does. */
Test(rows, first_and_last_page)
{
	static const struct {
		uint64_t va;
		int ending;
	} cases[] = {{0x0fff, ENDING_NO_ROW}, {0x1000, ENDING_ROOT},   {0x107f, ENDING_ROOT},
		     {0x11ff, ENDING_ROOT},   {0x1200, ENDING_NO_ROW}, {0x10000000, ENDING_NO_ROW}};
	const struct machine_row rows[] = {{0x1000, RULE_ROOT}, {0x1200, RULE_NONE}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_machine_ struct machine *m = machine_new();

		machine_map_table(m, 0, 1, rows, ARRAY_SIZE(rows));
		m->mappings[0].start = 0;
		m->mappings[0].end = 0x20000000;
		expect_ending(machine_unwind(m, cases[i].va, 0x70000000, 4, 512), cases[i].ending);
	}
}

/* A table in the last bytes of its segment: four rows are read where fewer are left. */
Test(rows, end_of_segment)
{
	_cleanup_machine_ struct machine *m = machine_new();
	const struct machine_row rows[] = {
		{0x1000, rule_number(1)}, {0x1008, rule_number(2)}, {0x1010, RULE_NONE}};
	struct unwind_blocks blocks = machine_encode(rows, ARRAY_SIZE(rows));
	uint32_t len = (blocks.blocks[0].len + REF_ALIGN - 1) / REF_ALIGN * REF_ALIGN;
	struct unwind_state t;

	m->used[1] = SEGMENT_BYTES - len;
	t = state_of(m, machine_place(m, 1, &blocks.blocks[0]));
	cr_expect_eq((int32_t)table_rule(m->segments[1], &t, 0), 16);
	cr_expect_eq((int32_t)table_rule(m->segments[1], &t, 0xf), 24);
	unwind_blocks_fini(&blocks);
}

/* Tables with rows packed densely or far apart, and up to `n_rules` rules. */
static size_t random_rows(struct machine_row *rows, size_t max, unsigned n_rules, unsigned max_gap,
			  unsigned *seed)
{
	uint64_t va = 0x400000 + rand_r(seed) % 4096;
	size_t n = 1 + rand_r(seed) % (max - 1);
	unsigned last = n_rules;

	for (size_t i = 0; i < n; i++) {
		unsigned rule = rand_r(seed) % n_rules;

		rule = rule == last ? (rule + 1) % n_rules : rule;
		rows[i] = (struct machine_row){va, rule ? rule_number(rule) : RULE_NONE};
		last = rule;
		va += 1 + rand_r(seed) % max_gap;
	}
	rows[n] = (struct machine_row){va, RULE_NONE};
	return n + 1;
}

Test(rows, random_tables)
{
	static const unsigned rules[] = {2, 10, 254, 1500}, gaps[] = {1, 4, 40, 1000};
	_cleanup_free_ struct machine_row *rows = calloc(401, sizeof *rows);
	unsigned seed = 20260301;

	for (size_t r = 0; r < ARRAY_SIZE(rules); r++) {
		for (size_t g = 0; g < ARRAY_SIZE(gaps); g++) {
			for (int round = 0; round < 4; round++) {
				char what[64];
				size_t n = random_rows(rows, 400, rules[r], gaps[g], &seed);

				snprintf(what, sizeof what, "%u rules, gaps to %u, round %d", rules[r],
					 gaps[g], round);
				check_all(rows, n, what);
			}
		}
	}
}

/* A stack through a file with more rules than a block holds: its blocks lie in several segments. */
Test(rows, table_in_several_blocks)
{
	enum { FUNCTIONS = 600, SPACING = 64 };
	const uint64_t bias = 0x10000000, stack = 0x70000000;
	_cleanup_machine_ struct machine *m = machine_new();
	_cleanup_free_ struct machine_row *rows = calloc(FUNCTIONS + 1, sizeof *rows);
	uint64_t sp = stack;

	for (unsigned i = 0; i < FUNCTIONS; i++)
		rows[i] = (struct machine_row){0x1000 + i * SPACING,
					       i + 1 < FUNCTIONS ? rule_number(i) : RULE_ROOT};
	rows[FUNCTIONS] = (struct machine_row){0x1000 + FUNCTIONS * SPACING, RULE_NONE};
	machine_map_table(m, bias, 5, rows, FUNCTIONS + 1);
	cr_assert_eq(m->n_mappings, 3);
	machine_memory(m, stack, 8 * FUNCTIONS * (FUNCTIONS + 1) / 2);
	for (unsigned i = 0; i + 1 < FUNCTIONS;
	     i++) { /* function i calls function i - 1; the frame of i is 8 (i + 1) */
		sp += 8 * (i + 1);
		machine_poke(m, sp - 8, bias + rows[i + 1].va + 7);
	}
	expect_ending(machine_unwind(m, bias + rows[0].va + 6, stack, 0, 1024), ENDING_ROOT);
	cr_assert_eq(m->area.state.n, FUNCTIONS);
	for (unsigned i = 0; i < FUNCTIONS; i++)
		expect_frame(m, i, 5, rows[i].va + 6);
}
