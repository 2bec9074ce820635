// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "tests/unit/agent/symbol/jit_support.h"
#include "tests/support/jit_table.h"

DEFINE_CLEANUP(struct jit_table *, jit_table_free)
#define _cleanup_table_ _cleanup_(jit_table_free_p)
#define _cleanup_builder_ _cleanup_(jit_builder_fini)

static void add(struct jit_builder *b, uint64_t start, uint64_t size, const char *name)
{
	cr_assert_eq(jit_builder_add(b, start, size, name, strlen(name)), 0);
}

static struct jit_table *table(const struct jit_table *old, struct jit_builder *b)
{
	struct jit_table *t;
	uint64_t n_cut = 0;

	cr_assert_eq(jit_table_new(&t, old, b, &n_cut), 0);
	cr_assert_eq(n_cut, 0);
	return t;
}

Test(jittable, later_entries_replace_what_they_overlap)
{
	_cleanup_builder_ struct jit_builder b;
	_cleanup_table_ struct jit_table *t = NULL;
	struct jit_symbol s;

	jit_builder_init(&b);
	add(&b, 0x1000, 0x100, "first");
	add(&b, 0x2000, 0x100, "second");
	add(&b, 0x3000, 0x100, "third");
	add(&b, 0x20ff, 0x10, "over the last byte of second");
	add(&b, 0x2f00, 0x100, "before third");
	t = table(NULL, &b);
	cr_expect_eq(jit_table_len(t), 4);
	cr_expect_eq(b.n, 0);
	cr_expect_str_eq(name_at(t, 0x1000), "first");
	cr_expect_str_eq(name_at(t, 0x10ff), "first");
	cr_expect_str_eq(name_at(t, 0x1100), "");
	cr_expect_str_eq(name_at(t, 0xfff), "");
	cr_expect_str_eq(name_at(t, 0x2000), "", "the replaced one has no part left");
	cr_expect_str_eq(name_at(t, 0x20ff), "over the last byte of second");
	cr_expect_str_eq(name_at(t, 0x2fff), "before third");
	cr_expect_str_eq(name_at(t, 0x3000), "third");
	cr_assert(jit_table_find(t, 0x3010, &s));
	cr_expect(s.start == 0x3000 && s.end == 0x3100);
}

/* An entry stays replaced when the entry that replaced it is replaced itself. */
Test(jittable, replaced_code_stays_replaced)
{
	_cleanup_builder_ struct jit_builder b;
	_cleanup_table_ struct jit_table *t = NULL;

	jit_builder_init(&b);
	add(&b, 0x1000, 0x100, "a");
	add(&b, 0x10f0, 0x100, "b");
	add(&b, 0x11e0, 0x100, "c");
	t = table(NULL, &b);
	cr_expect_eq(jit_table_len(t), 1);
	cr_expect_str_eq(name_at(t, 0x11e0), "c");
	cr_expect_str_eq(name_at(t, 0x1000), "");
}

Test(jittable, a_table_takes_over_entries_of_the_old_one)
{
	_cleanup_builder_ struct jit_builder b;
	_cleanup_table_ struct jit_table *first = NULL, *second = NULL;

	jit_builder_init(&b);
	add(&b, 0x1000, 0x100, "stays");
	add(&b, 0x2000, 0x100, "goes");
	add(&b, 0x3000, 0x100, "stays as well");
	first = table(NULL, &b);
	add(&b, 0x2080, 0x10, "new");
	add(&b, 0x500, 0x10, "below");
	second = table(first, &b);
	cr_expect_eq(jit_table_len(second), 4);
	cr_expect_str_eq(name_at(second, 0x1000), "stays");
	cr_expect_str_eq(name_at(second, 0x2000), "");
	cr_expect_str_eq(name_at(second, 0x2080), "new");
	cr_expect_str_eq(name_at(second, 0x30ff), "stays as well");
	cr_expect_str_eq(name_at(second, 0x50f), "below");
	cr_expect_str_eq(name_at(first, 0x2000), "goes", "the old table is as it was");
}

Test(jittable, moves)
{
	_cleanup_builder_ struct jit_builder b;
	_cleanup_table_ struct jit_table *first = NULL, *second = NULL;

	jit_builder_init(&b);
	add(&b, 0x1000, 0x100, "f");
	cr_assert_eq(jit_builder_move(&b, 0x1000, 0x1040, 0x100),
		     0); /* to a range that overlaps the old one */
	cr_assert_eq(jit_builder_move(&b, 0x1040, 0x5000, 0x100), 0);
	add(&b, 0x1000, 0x20, "g");
	cr_assert_eq(jit_builder_move(&b, 0x7000, 0x8000, 0x10), 0); /* of code that has no entry */
	first = table(NULL, &b);
	cr_expect_eq(jit_table_len(first), 2);
	cr_expect_str_eq(name_at(first, 0x5000), "f");
	cr_expect_str_eq(name_at(first, 0x1000), "g");
	cr_expect_str_eq(name_at(first, 0x1040), "");
	cr_expect_str_eq(name_at(first, 0x8000), "");
	cr_assert_eq(jit_builder_move(&b, 0x5000, 0x6000, 0x100), 0);
	add(&b, 0x5000, 0x10, "h");
	second = table(first, &b);
	cr_expect_str_eq(name_at(second, 0x60ff), "f");
	cr_expect_str_eq(name_at(second, 0x500f), "h");
	cr_expect_str_eq(name_at(second, 0x5010), "");
}

Test(jittable, refused_entries)
{
	static const struct {
		uint64_t start, size;
		const char *name;
	} rows[] = {
		{0x1000, 0, "empty"},
		{0, 0x1000, "null"},
		{UINT64_MAX - 10, 100, "wraps"},
		{JIT_ADDRESS_MAX, 1, "kernel"},
		{JIT_ADDRESS_MAX - 8, 9, "out of the last byte"},
		{0x1000, JIT_CODE_MAX + 1, "huge"},
		{0x1000, UINT64_MAX, "everything"},
		{0x1000, 0x10, ""},
	};
	_cleanup_builder_ struct jit_builder b;
	_cleanup_table_ struct jit_table *t = NULL;
	static char name[2 * JIT_NAME_MAX];

	jit_builder_init(&b);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		cr_expect_eq(
			jit_builder_add(&b, rows[i].start, rows[i].size, rows[i].name, strlen(rows[i].name)),
			-EINVAL, "%s", rows[i].name);
	cr_expect_eq(jit_builder_move(&b, 0, 0x1000, 1), -EINVAL);
	cr_expect_eq(jit_builder_move(&b, 0x1000, 0, 1), -EINVAL);
	cr_expect_eq(b.n, 0);
	memset(name, 'n', sizeof name);
	cr_expect_eq(jit_builder_add(&b, JIT_ADDRESS_MAX - 8, 8, name, sizeof name), 0);
	cr_expect_eq(jit_builder_add(&b, 0x1000, 8, "cut\0here", 8), 0);
	t = table(NULL, &b);
	cr_expect_eq(strlen(name_at(t, JIT_ADDRESS_MAX - 1)), JIT_NAME_MAX);
	cr_expect_str_eq(name_at(t, 0x1000), "cut");
}

/*
 * Compares tables with the definition, applied entry by entry, in a small address space; tables are made
 * after a random number of entries.
 */
Test(jittable, random_entries_as_the_definition_says)
{
	enum { SPACE = 200, ENTRIES = 60 };

	srand(7);
	for (int round = 0; round < 300; round++) {
		int owner[SPACE] = {0}, starts[ENTRIES + 1], ends[ENTRIES + 1];
		struct jit_table *t = NULL;
		struct jit_builder b;

		jit_builder_init(&b);
		for (int i = 1; i <= ENTRIES; i++) {
			int start = 1 + rand() % (SPACE - 2), size = 1 + rand() % (i % 5 ? 6 : 40);
			char name[16];

			if (start + size > SPACE)
				size = SPACE - start;
			starts[i] = start;
			ends[i] = start + size;
			snprintf(name, sizeof name, "%d", i);
			add(&b, (uint64_t)start, (uint64_t)size, name);
			for (int k = start; k < start + size; k++)
				for (int j = 0, was = owner[k]; was && j < SPACE; j++)
					owner[j] = owner[j] == was && was != i ? 0 : owner[j];
			for (int k = start; k < start + size; k++)
				owner[k] = i;
			if (rand() % 8 == 0 || i == ENTRIES) {
				struct jit_table *next = table(t, &b);

				jit_table_free(t);
				t = next;
			}
		}
		for (int k = 1; k < SPACE; k++) {
			struct jit_symbol s;
			bool found = jit_table_find(t, (uint64_t)k, &s);

			cr_assert_eq(found, owner[k] != 0, "round %d address %d", round, k);
			if (!found)
				continue;
			cr_assert_eq(atoi(s.name), owner[k], "round %d address %d", round, k);
			cr_assert(s.start == (uint64_t)starts[owner[k]] && s.end == (uint64_t)ends[owner[k]]);
		}
		jit_table_free(t);
		jit_builder_fini(&b);
	}
}

/* With full builders and tables, old entries are discarded and counted; the newest are all present. */
Test(jittable, bounded)
{
	_cleanup_table_ struct jit_table *t = NULL;
	_cleanup_builder_ struct jit_builder b;
	uint64_t n_cut = 0, n = 0;

	jit_builder_init(&b);
	for (int batch = 0; batch < 6; batch++) {
		struct jit_table *next;
		int r = 0;

		for (; r == 0; n += r == 0)
			r = jit_builder_add(&b, 0x10000 + n * 16, 16, "name", 4);
		cr_assert_eq(r, -ENOSPC);
		cr_assert_eq(jit_table_new(&next, t, &b, &n_cut), 0);
		jit_table_free(t);
		t = next;
		cr_assert_eq(jit_table_len(t) + n_cut, n);
		cr_assert_leq(jit_table_len(t), JIT_SYMBOLS_MAX);
	}
	cr_expect_gt(n_cut, 0);
	cr_expect_leq(jit_table_bytes(t), JIT_SYMBOLS_MAX * 32);
	cr_expect_str_eq(name_at(t, 0x10000 + (n - 1) * 16), "name");
	cr_expect_str_eq(name_at(t, 0x10000 + (n - JIT_SYMBOLS_MAX) * 16), "name");
	cr_expect_str_eq(name_at(t, 0x10000), "");
}

Test(jittable, bytes_of_names_are_bounded)
{
	_cleanup_table_ struct jit_table *t = NULL;
	_cleanup_builder_ struct jit_builder b;
	static char name[JIT_NAME_MAX];
	uint64_t n_cut = 0, n = 0;

	memset(name, 'x', sizeof name);
	jit_builder_init(&b);
	for (int batch = 0; batch < 4; batch++) {
		struct jit_table *next;

		for (int r = 0; r == 0; n += r == 0)
			r = jit_builder_add(&b, 0x10000 + n * 16, 16, name, sizeof name);
		cr_assert_eq(jit_table_new(&next, t, &b, &n_cut), 0);
		jit_table_free(t);
		t = next;
		cr_assert_leq(jit_table_bytes(t), JIT_NAMES_MAX + JIT_SYMBOLS_MAX * 16);
	}
	cr_expect_gt(n_cut, 0);
	cr_expect_eq(jit_table_len(t) + n_cut, n);
}
