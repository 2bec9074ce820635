// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>

#include "agent/proc/history.h"
#include "agent/proc/table.h"

static struct process *process_new(struct proc_table **table)
{
	struct process *p;

	cr_assert_eq(proc_table_new(table, 4, NULL), 0);
	cr_assert_eq(proc_table_add(*table, 7, 0, &p), 0);
	return p;
}

static void count(const struct proc_maps *m, void *data)
{
	(void)m;
	++*(unsigned *)data;
}

/* Tests the versions of a process's mappings. */
static unsigned kept(const struct process *p)
{
	unsigned n = 0;

	proc_history_each(p, count, &n);
	return n;
}

/* Replaces `n` mappings by mappings of that file, after the previous ones were recorded. */
static void change(struct process *p, uint64_t time_ns, uint32_t generation, uint32_t file, uint32_t n)
{
	if (p->maps->n)
		cr_assert_eq(proc_history_add(p, time_ns, generation), 0);
	cr_assert_eq(proc_maps_own(p), 0);
	for (uint32_t i = 0; i < n; i++)
		cr_assert_eq(proc_maps_insert(p->maps, (struct proc_mapping){i * 0x2000u,
									     i * 0x2000u + 0x1000u, 0, file}),
			     0);
}

static uint32_t file_at(const struct process *p, uint64_t time_ns)
{
	const struct proc_maps *m = proc_history_at(p, time_ns);

	return m && m->n ? proc_maps_at(m, 0)->file : 0;
}

/* The file of the outdated list; 0: the right list was used, 99: unknown. */
static uint32_t outdated(const struct process *p, uint64_t time_ns, uint32_t generation)
{
	const struct proc_maps *m;

	if (!proc_history_outdated(p, time_ns, generation, &m))
		return 0;
	return m ? proc_maps_at(m, 0)->file : 99;
}

Test(history, none)
{
	struct proc_table *table;
	struct process *p = process_new(&table);

	cr_expect_eq(proc_history_at(p, 0), p->maps);
	cr_expect_eq(outdated(p, 100, 1), 0u);
	proc_history_forget(p, 100);
	proc_table_free(table);
}

/* File 1 until 100, with list 5; then file 2 until 200 and file 3, both with list 6. */
Test(history, what_held_and_what_was_used)
{
	struct proc_table *table;
	struct process *p = process_new(&table);

	change(p, 0, 0, 1, 1);
	change(p, 100, 5, 2, 1);
	change(p, 200, 5, 3, 1);
	cr_expect_eq(file_at(p, 99), 1u);
	cr_expect_eq(file_at(p, 100), 2u);
	cr_expect_eq(file_at(p, 199), 2u);
	cr_expect_eq(file_at(p, 200), 3u);
	cr_expect_eq(outdated(p, 99, 5), 0u);
	cr_expect_eq(outdated(p, 100, 5), 1u);
	cr_expect_eq(outdated(p, 300, 5), 1u);
	cr_expect_eq(outdated(p, 300, 6), 0u);
	proc_history_forget(p, 150);
	cr_expect_eq(file_at(p, 160), 2u);
	proc_history_forget(p, 201);
	cr_expect_null(p->history);
	cr_expect_eq(kept(p), 0u);
	proc_table_free(table);
}

Test(history, generations_wrap_around)
{
	struct proc_table *table;
	struct process *p = process_new(&table);

	change(p, 0, 0, 1, 1);
	change(p, 100, 2, 2, 1);
	cr_expect_eq(outdated(p, 150, UINT32_MAX), 1u);
	cr_expect_eq(outdated(p, 150, 3), 0u);
	proc_table_free(table);
}

Test(history, versions_are_bounded)
{
	struct proc_table *table;
	struct process *p = process_new(&table);

	for (uint32_t i = 1; i <= PROC_HISTORY_MAX + 3; i++)
		change(p, i * 100, i, i, 1);
	cr_expect_eq(kept(p), PROC_HISTORY_MAX);
	cr_expect_eq(file_at(p, 250), 0u, "what held then is forgotten");
	cr_expect_eq(file_at(p, 350), 3u);
	cr_expect_eq(outdated(p, 250, 1), 99u);
	cr_expect_eq(outdated(p, 1000, 2), 99u);
	cr_expect_eq(outdated(p, 1000, 4), 4u - 1);
	proc_table_free(table);
}

Test(history, mappings_are_bounded)
{
	struct proc_table *table;
	struct process *p = process_new(&table);

	for (uint32_t i = 1; i <= 6; i++)
		change(p, i * 100, i, i, 3000);
	cr_expect_eq(kept(p), 2u); /* there was nothing before the first change */
	cr_expect_eq(file_at(p, 599), 5u);
	cr_expect_eq(file_at(p, 399), 0u);
	proc_table_free(table);
}

Test(history, replaces)
{
	struct proc_table *table;
	struct process *p = process_new(&table);

	change(p, 0, 0, 1, 2); /* 0..1000, 2000..3000 of file 1, offset 0 */
	cr_expect(!proc_maps_replaces(p->maps, &(struct proc_mapping){0x1000, 0x2000, 0, 2}), "beside");
	cr_expect(!proc_maps_replaces(p->maps, &(struct proc_mapping){0, 0x1000, 0, 1}), "the same again");
	cr_expect(!proc_maps_replaces(p->maps, &(struct proc_mapping){0x800, 0x1000, 0x800, 1}),
		  "a part of it");
	cr_expect(proc_maps_replaces(p->maps, &(struct proc_mapping){0x800, 0x1800, 0, 2}), "another file");
	cr_expect(proc_maps_replaces(p->maps, &(struct proc_mapping){0, 0x1000, 0x1000, 1}),
		  "another place of it");
	cr_expect(proc_maps_replaces(p->maps, &(struct proc_mapping){0x2800, 0x9000, 0, PROC_FILE_NONE}),
		  "no file");
	proc_table_free(table);
}

/* After a pid was reused, it names the list of the previous process until that one's end is reported. */
Test(history, lists_of_others)
{
	static const struct {
		uint32_t generation, outdated;
	} cases[] = {{5, 99}, {7, 0}, {10, 99}, {11, 0}, {500, 0}};
	struct proc_table *table;
	struct process *parent = process_new(&table), *child;

	change(parent, 0, 0, 1, 1);
	cr_assert_eq(proc_table_add(table, 8, 100, &child), 0);
	proc_maps_unref(child->maps);
	child->maps = proc_maps_ref(parent->maps);
	proc_history_begin(child, 10, 7);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		cr_expect_eq(outdated(child, 150, cases[i].generation), cases[i].outdated, "generation %u",
			     cases[i].generation);
	cr_expect_eq(outdated(parent, 150, 5), 0u);
	proc_history_begin(child, 10, 0); /* the published list is not the child's */
	cr_expect_eq(outdated(child, 150, 7), 99u);
	proc_table_free(table);
}
