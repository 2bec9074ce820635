// SPDX-License-Identifier: Apache-2.0
/* A process's mappings as the entries of its list. */
#include "agent/proc/table.h"
#include "agent/unwind/list.h"
#include "tests/unit/agent/unwind/world.h"

#define BASE 0x7f0000000000ull
#define PAGE 4096ull

DEFINE_CLEANUP(struct proc_maps *, proc_maps_unref)
#define _cleanup_maps_ _cleanup_(proc_maps_unref_p)
#define _cleanup_entries_ _cleanup_(list_entries_fini)

static struct proc_maps *maps_of(struct proc_mapping mapping)
{
	struct proc_maps *m = NULL;

	cr_assert_eq(proc_maps_new(&m, NULL), 0);
	cr_assert_eq(proc_maps_insert(m, mapping), 0);
	return m;
}

static struct list_entries make(const struct world *w, const struct proc_maps *m)
{
	struct list_entries l = {0};

	cr_assert_eq(list_entries_make(&l, m, w->tables), 0);
	for (size_t i = 0; i < l.n; i++) {
		cr_expect_lt(l.entries[i].start, l.entries[i].end);
		cr_expect(i == 0 || l.entries[i - 1].end <= l.entries[i].start, "entry %zu", i);
	}
	return l;
}

Test(list, no_mappings)
{
	_cleanup_world_ struct world w;
	_cleanup_maps_ struct proc_maps *m = NULL;
	_cleanup_entries_ struct list_entries l = {0};

	world_init(&w, 1, 16);
	cr_assert_eq(proc_maps_new(&m, NULL), 0);
	l = make(&w, m);
	cr_expect_eq(l.n, 0);
}

/* Memory without a file, and of a file that the cache has forgotten. */
Test(list, anonymous)
{
	static const uint32_t files[] = {PROC_FILE_NONE, 5, FILE_ANONYMOUS};
	_cleanup_world_ struct world w;

	world_init(&w, 1, 16);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		_cleanup_maps_ struct proc_maps *m =
			maps_of((struct proc_mapping){BASE, BASE + PAGE, 7 * PAGE, files[i]});
		_cleanup_entries_ struct list_entries l = make(&w, m);

		cr_assert_eq(l.n, 1);
		cr_expect_eq(l.entries[0].start, BASE);
		cr_expect_eq(l.entries[0].end, BASE + PAGE);
		cr_expect_eq(l.entries[0].bias, 0);
		cr_expect_eq(l.entries[0].file, FILE_ANONYMOUS);
		cr_expect_eq(l.entries[0].table, 0);
	}
}

/* The addresses of a file that is not ELF are its offsets. */
/* A file that is being opened may have a table; one that is stuck is not waited for. */
Test(list, being_opened)
{
	static const struct {
		uint32_t file, table;
	} cases[] = {
		{PROC_FILE_OPENING | 7, TABLE_PENDING},
		{PROC_FILE_OPENING | PROC_FILE_STUCK | 7, TABLE_NEVER},
	};
	_cleanup_world_ struct world w;

	world_init(&w, 1, 16);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_maps_ struct proc_maps *m =
			maps_of((struct proc_mapping){BASE, BASE + PAGE, 0, cases[i].file});
		_cleanup_entries_ struct list_entries l = make(&w, m);

		cr_assert_eq(l.n, 1);
		cr_expect_eq(l.entries[0].file, FILE_ANONYMOUS);
		cr_expect_eq(l.entries[0].table, cases[i].table, "case %zu", i);
	}
}

Test(list, not_elf)
{
	_cleanup_world_ struct world w;
	_cleanup_maps_ struct proc_maps *m = NULL;
	_cleanup_entries_ struct list_entries l = {0};
	uint32_t index;

	world_init(&w, 1, 16);
	world_write(&w, "text", "hello\n", 6);
	cr_assert_eq(world_add(&w, "text", &index), 0);
	m = maps_of((struct proc_mapping){BASE, BASE + PAGE, 3 * PAGE, index});
	l = make(&w, m);
	cr_assert_eq(l.n, 1);
	cr_expect_eq(l.entries[0].start - l.entries[0].bias, 3 * PAGE);
	cr_expect_eq(l.entries[0].end, BASE + PAGE);
	cr_expect_eq(l.entries[0].file, index);
}

/*
 * Mapped as a whole, with and without a table: only the text is in the list, each address with its ELF
 * address, without holes, and each block of the table over its own range.
 */
Test(list, whole_library)
{
	_cleanup_world_ struct world w;
	_cleanup_maps_ struct proc_maps *m = NULL;
	const struct elf_segment *text = NULL;
	const struct binary_table *f;
	uint64_t first, last;
	uint32_t index;

	world_init(&w, 1, 16);
	index = world_add_libc(&w, "a", 0);
	f = world_table(&w, index);
	for (size_t i = 0; i < f->binary->n_segments; i++)
		text = f->binary->segments[i].executable ? &f->binary->segments[i] : text;
	cr_assert_not_null(text);
	first = BASE + (text->offset & ~(PAGE - 1));
	last = BASE + ((text->offset + text->file_bytes + PAGE - 1) & ~(PAGE - 1));
	m = maps_of((struct proc_mapping){BASE, BASE + (w.libc.len + PAGE) / PAGE * PAGE, 0, index});
	for (int with_table = 0; with_table < 2; with_table++) {
		_cleanup_entries_ struct list_entries l = make(&w, m);
		uint64_t at = first;
		size_t tables = 0;

		for (size_t i = 0; i < l.n; i++) {
			const struct mapping_entry *e = &l.entries[i];

			cr_expect_eq(e->start, at, "no hole before entry %zu", i);
			cr_expect_eq(e->start - e->bias, text->va + (e->start - BASE - text->offset));
			cr_expect_eq(e->file, index);
			for (size_t k = 0; e->table && k < f->n_placed; k++)
				tables += f->placed[k].block.ref == e->table &&
					  f->placed[k].va == e->start - e->bias &&
					  f->placed[k].end == e->end - e->bias;
			at = e->end;
		}
		cr_expect_eq(at, last);
		cr_expect_eq(tables, f->n_placed);
		world_settle(&w);
		cr_assert_gt(f->n_placed, 0);
	}
}

Test(list, sizes)
{
	size_t n = list_capacity(SEGMENT_BYTES);

	cr_expect_leq(list_bytes(n), SEGMENT_BYTES);
	cr_expect_leq(n, 1u << LIST_SEARCH_STEPS);
	for (size_t i = 1; i < 5000; i++) {
		cr_expect_lt(list_bytes(i), list_bytes(i + 1));
		cr_expect_geq(list_bytes(i),
			      sizeof(struct mapping_list) + i * (8 + sizeof(struct mapping_entry)));
		cr_expect_leq(list_bytes(list_capacity(list_bytes(i))), list_bytes(i));
	}
}
