// SPDX-License-Identifier: Apache-2.0
/* Tests processes by pid and time, and their mapping lists. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/proc/history.h"
#include "agent/proc/table.h"

DEFINE_CLEANUP(struct proc_table *, proc_table_free)
DEFINE_CLEANUP(struct proc_maps *, proc_maps_unref)
#define _cleanup_table_ _cleanup_(proc_table_free_p)
#define _cleanup_maps_ _cleanup_(proc_maps_unref_p)

static struct proc_table *table_new(size_t max)
{
	struct proc_table *t = NULL;

	cr_assert_eq(proc_table_new(&t, max, NULL), 0);
	return t;
}

static struct process *add(struct proc_table *t, uint32_t pid, uint64_t start_ns)
{
	struct process *p = NULL;

	cr_assert_eq(proc_table_add(t, pid, start_ns, &p), 0);
	cr_assert_eq(p->pid, pid);
	cr_assert_eq(p->start_ns, start_ns);
	return p;
}

static void on_each(struct process *p, void *data)
{
	*(uint64_t *)data += p->pid;
}

Test(proc_table, add_and_get)
{
	_cleanup_table_ struct proc_table *t = table_new(100);
	struct process *p = add(t, 10, 5);
	uint64_t sum = 0;

	cr_expect_eq(proc_table_get(t, 10), p);
	cr_expect_null(proc_table_get(t, 11));
	cr_expect_eq(p->maps->n, 0);
	add(t, 11, 6);
	cr_expect_eq(proc_table_len(t), 2);
	proc_table_each(t, on_each, &sum);
	cr_expect_eq(sum, 21);
	proc_table_free(NULL);
	process_unref(NULL);
}

/* One pid, three processes: the time decides which one is found. */
Test(proc_table, pid_reuse)
{
	_cleanup_table_ struct proc_table *t = table_new(100);
	struct process *first = add(t, 10, 100), *second, *third;

	proc_table_end(t, first, 200);
	cr_expect_null(proc_table_get(t, 10));
	second = add(t, 10, 300);
	third = add(t, 10, 500); /* the exit of the second was missed, so it ends where the third begins */
	cr_expect_eq(second->end_ns, 500);
	cr_expect_eq(proc_table_len(t), 1);

	const struct {
		uint64_t time_ns;
		struct process *want;
	} cases[] = {
		{100, first},
		{150, first},
		{200, first},
		{250, first}, /* sampled while it exits */
		{300, second},
		{499, second},
		{500, third},
		{501, third},
		/* Before any known process: none is found, rather than a wrong one. */
		{9999, third},
		{50, NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		cr_expect_eq(proc_table_at(t, 10, cases[i].time_ns), cases[i].want, "at %llu",
			     (unsigned long long)cases[i].time_ns);
	cr_expect_null(proc_table_at(t, 11, 150));
	proc_table_end(t, third, 600);
	cr_expect_eq(proc_table_at(t, 10, 250), first);
	cr_expect_null(proc_table_at(t, 10, 50), "before anybody, and nobody lives");
	cr_expect_eq(proc_table_at(t, 10, 550), third);
}

Test(proc_table, end_twice)
{
	_cleanup_table_ struct proc_table *t = table_new(100);
	struct process *p = add(t, 10, 100);

	proc_table_end(t, p, 200);
	proc_table_end(t, p, 300);
	cr_expect_eq(p->end_ns, 200);
	cr_expect_eq(proc_table_len(t), 0);
	p = add(t, 12, 0);
	proc_table_end(t, p, 0);
	cr_expect_neq(p->end_ns, 0, "0 means alive");
}

Test(proc_table, starts_no_earlier_than_its_forerunner_ended)
{
	_cleanup_table_ struct proc_table *t = table_new(100);
	struct process *p;

	proc_table_end(t, add(t, 10, 100), 200);
	cr_assert_eq(proc_table_add(t, 10, 0, &p), 0);
	cr_expect_eq(p->start_ns, 200);
	cr_expect_eq(p->image->start_ns, 200);
}

/* A sample from before all known processes of its pid gets a process of its own. */
Test(proc_table, add_ended)
{
	_cleanup_table_ struct proc_table *t = table_new(100);
	struct process *alive = add(t, 10, 300), *p;

	cr_assert_eq(proc_table_add_ended(t, 10, 150, &p), 0);
	cr_expect_eq(proc_table_at(t, 10, 150), p);
	cr_expect_eq(proc_table_at(t, 10, 299), p);
	cr_expect_eq(proc_table_at(t, 10, 300), alive);
	cr_expect_eq(proc_table_get(t, 10), alive);
	cr_assert_eq(proc_table_add_ended(t, 11, 150, &p), 0);
	cr_expect_eq(proc_table_at(t, 11, 150), p);
	cr_expect_null(proc_table_get(t, 11));
	cr_expect_eq(proc_table_len(t), 1);
	proc_table_reap(t, 151);
	cr_expect_null(proc_table_at(t, 10, 150));
	cr_expect_null(proc_table_at(t, 11, 150));
	cr_expect_eq(proc_table_at(t, 10, 300), alive);
}

Test(proc_table, reap)
{
	_cleanup_table_ struct proc_table *t = table_new(100);

	for (uint32_t pid = 1; pid <= 6; pid++)
		proc_table_end(t, add(t, pid, 10), 100 * ((pid + 1) / 2)); /* 100 100 200 200 300 300 */
	add(t, 7, 10);
	proc_table_reap(t, 100);
	cr_expect_not_null(proc_table_at(t, 1, 50), "what ended at that time stays");
	proc_table_reap(t, 300);
	for (uint32_t pid = 1; pid <= 4; pid++)
		cr_expect_null(proc_table_at(t, pid, 50));
	cr_expect_not_null(proc_table_at(t, 5, 50));
	cr_expect_not_null(proc_table_at(t, 6, 50));
	proc_table_reap(t, UINT64_MAX);
	cr_expect_null(proc_table_at(t, 6, 50));
	cr_expect_eq(proc_table_len(t), 1);
	cr_expect_not_null(proc_table_at(t, 7, 50));
}

/* Of the processes of one pid the oldest is forgotten first, whatever its position. */
Test(proc_table, reap_one_of_a_pid)
{
	_cleanup_table_ struct proc_table *t = table_new(100);
	struct process *second;

	proc_table_end(t, add(t, 10, 100), 200);
	second = add(t, 10, 300);
	proc_table_end(t, second, 400);
	add(t, 10, 500);
	proc_table_reap(t, 300);
	cr_expect_null(proc_table_at(t, 10, 150));
	cr_expect_eq(proc_table_at(t, 10, 350), second);
	proc_table_end(t, proc_table_get(t, 10), 600);
	proc_table_reap(t, UINT64_MAX);
	cr_expect_null(proc_table_at(t, 10, 550));
}

/*
 * However many processes come and go before their samples are drained, no more than the maximum
 * are remembered.
 */
Test(proc_table, ended_maximum)
{
	_cleanup_table_ struct proc_table *t = table_new(4);
	uint32_t n = PROC_ENDED_MAX + 100, found = 0;

	for (uint32_t pid = 1; pid <= n; pid++)
		proc_table_end(t, add(t, pid % 1000 + 1, 10 * pid), 10 * pid + 5);
	for (uint32_t pid = 1; pid <= n; pid++) {
		struct process *p = proc_table_at(t, pid % 1000 + 1, 10 * pid);

		found += p && p->start_ns == 10 * pid;
	}
	cr_expect_eq(found, PROC_ENDED_MAX);
}

/* A reference preserves the process after its end and its reaping. */
Test(proc_table, references)
{
	_cleanup_table_ struct proc_table *t = table_new(100);
	struct process *p = process_ref(add(t, 10, 100));

	strcpy(p->image->comm, "thing");
	proc_table_end(t, p, 200);
	proc_table_reap(t, 1000);
	cr_expect_null(proc_table_at(t, 10, 150));
	cr_expect_str_eq(proc_image_executable(p->image), "thing");
	process_unref(p);
}

Test(proc_table, maximum)
{
	_cleanup_table_ struct proc_table *t = table_new(3);
	struct process *p = NULL;

	for (uint32_t pid = 1; pid <= 3; pid++)
		add(t, pid, 1);
	cr_expect_eq(proc_table_add(t, 4, 1, &p), -ENOSPC);
	cr_expect_null(p);
	cr_expect_eq(proc_table_full(t), 1);
	cr_expect_eq(proc_table_len(t), 3);
	add(t, 2, 5); /* replaces */
	proc_table_end(t, proc_table_get(t, 1), 6);
	add(t, 4, 7);
	cr_expect_eq(proc_table_full(t), 1);
}

/* ---- mapping lists */

static struct proc_maps *maps_new(void)
{
	struct proc_maps *m = NULL;

	cr_assert_eq(proc_maps_new(&m, NULL), 0);
	return m;
}

static void insert(struct proc_maps *m, uint64_t start, uint64_t end, uint64_t offset, uint32_t file)
{
	cr_assert_eq(proc_maps_insert(m, (struct proc_mapping){start, end, offset, file}), 0);
}

struct insert_case {
	const char *what;
	uint64_t start, end; /* inserted with offset 0x900, file 9 */
	unsigned n;
	struct proc_mapping want[4];
};

/*
 * Before: [10, 20) of file 1 from offset 100 on, [20, 30) of file 2 from 200 on, [40, 50) of file 3 from
 * 300 on.
 */
static const struct insert_case inserts[] = {
	{"in the gap", 32, 38, 4, {{10, 20, 100, 1}, {20, 30, 200, 2}, {32, 38, 0x900, 9}, {40, 50, 300, 3}}},
	{"fills the gap",
	 30,
	 40,
	 4,
	 {{10, 20, 100, 1}, {20, 30, 200, 2}, {30, 40, 0x900, 9}, {40, 50, 300, 3}}},
	{"below all", 0, 10, 4, {{0, 10, 0x900, 9}, {10, 20, 100, 1}, {20, 30, 200, 2}, {40, 50, 300, 3}}},
	{"above all", 50, 60, 4, {{10, 20, 100, 1}, {20, 30, 200, 2}, {40, 50, 300, 3}, {50, 60, 0x900, 9}}},
	{"the same range", 20, 30, 3, {{10, 20, 100, 1}, {20, 30, 0x900, 9}, {40, 50, 300, 3}}},
	{"over the gap's two sides",
	 25,
	 45,
	 4,
	 {{10, 20, 100, 1}, {20, 25, 200, 2}, {25, 45, 0x900, 9}, {45, 50, 305, 3}}},
	{"over a whole one and its neighbours",
	 15,
	 45,
	 3,
	 {{10, 15, 100, 1}, {15, 45, 0x900, 9}, {45, 50, 305, 3}}},
	{"over all", 0, 100, 1, {{0, 100, 0x900, 9}}},
	{"the beginning of one",
	 40,
	 44,
	 4,
	 {{10, 20, 100, 1}, {20, 30, 200, 2}, {40, 44, 0x900, 9}, {44, 50, 304, 3}}},
	{"the end of one",
	 46,
	 50,
	 4,
	 {{10, 20, 100, 1}, {20, 30, 200, 2}, {40, 46, 300, 3}, {46, 50, 0x900, 9}}},
	{"touches both neighbours", 10, 30, 2, {{10, 30, 0x900, 9}, {40, 50, 300, 3}}},
};

Test(proc_maps, insert)
{
	for (size_t i = 0; i < ARRAY_SIZE(inserts); i++) {
		_cleanup_maps_ struct proc_maps *m = maps_new();
		const struct insert_case *c = &inserts[i];

		insert(m, 40, 50, 300, 3);
		insert(m, 10, 20, 100, 1);
		insert(m, 20, 30, 200, 2);
		uint64_t version = m->version;
		insert(m, c->start, c->end, 0x900, 9);
		cr_expect_gt(m->version, version);
		cr_assert_eq(m->n, c->n, "%s: %u entries", c->what, m->n);
		for (unsigned k = 0; k < c->n; k++)
			cr_expect(proc_maps_at(m, k)->start == c->want[k].start &&
					  proc_maps_at(m, k)->end == c->want[k].end &&
					  proc_maps_at(m, k)->offset == c->want[k].offset &&
					  proc_maps_at(m, k)->file == c->want[k].file,
				  "%s: entry %u", c->what, k);
	}
}

/* A mapping inside another one divides it in two. */
Test(proc_maps, insert_inside)
{
	_cleanup_maps_ struct proc_maps *m = maps_new();

	insert(m, 100, 200, 1000, 1);
	insert(m, 150, 160, 0, 2);
	cr_assert_eq(m->n, 3);
	cr_expect_eq(proc_maps_at(m, 0)->end, 150);
	cr_expect_eq(proc_maps_at(m, 2)->start, 160);
	cr_expect_eq(proc_maps_at(m, 2)->offset, 1060);
	cr_expect_eq(proc_maps_at(m, 2)->file, 1);
}

Test(proc_maps, refused)
{
	_cleanup_maps_ struct proc_maps *m = maps_new();

	cr_expect_eq(proc_maps_insert(m, (struct proc_mapping){10, 10, 0, 1}), -EINVAL);
	cr_expect_eq(proc_maps_insert(m, (struct proc_mapping){10, 9, 0, 1}), -EINVAL);
	cr_expect_eq(m->n, 0);
	insert(m, UINT64_MAX - 1, UINT64_MAX, 0, 1);
	cr_expect_not_null(proc_maps_find(m, UINT64_MAX - 1));
	cr_expect_null(proc_maps_find(m, UINT64_MAX));
}

Test(proc_maps, maximum)
{
	_cleanup_maps_ struct proc_maps *m = maps_new();
	uint32_t n = 0;
	int r = 0;

	while (r == 0 && n <= PROC_MAPS_MAX) {
		r = proc_maps_insert(m, (struct proc_mapping){n * 2ull, n * 2ull + 1, 0, 1});
		n += r == 0;
	}
	cr_expect_eq(r, -ENOSPC);
	cr_expect_eq(m->n, n);
	cr_expect(n <= PROC_MAPS_MAX && n >= PROC_MAPS_MAX - 2, "%u", n);
}

/* Memory without a file is joined with such memory that it touches; mappings of files are unchanged. */
Test(proc_maps, without_file)
{
	_cleanup_maps_ struct proc_maps *m = maps_new();

	insert(m, 10, 20, 0, PROC_FILE_NONE);
	insert(m, 30, 40, 0, PROC_FILE_NONE);
	insert(m, 40, 50, 7, 1);
	cr_assert_eq(m->n, 3);
	insert(m, 20, 25, 0, PROC_FILE_NONE);
	cr_assert_eq(m->n, 3);
	cr_expect_eq(proc_maps_at(m, 0)->end, 25);
	insert(m, 25, 45, 0, PROC_FILE_NONE);
	cr_assert_eq(m->n, 2);
	cr_expect(proc_maps_at(m, 0)->start == 10 && proc_maps_at(m, 0)->end == 45);
	cr_expect(proc_maps_at(m, 1)->start == 45 && proc_maps_at(m, 1)->offset == 12 &&
		  proc_maps_at(m, 1)->file == 1);
	insert(m, 15, 20, 3, 2);
	cr_assert_eq(m->n, 4, "a file's mapping cuts it");
}

Test(proc_maps, has)
{
	_cleanup_maps_ struct proc_maps *m = maps_new();

	insert(m, 10, 20, 0, PROC_FILE_NONE);
	insert(m, 40, 50, 7, 1);
	cr_expect(proc_maps_has(m, &(struct proc_mapping){12, 20, 99, PROC_FILE_NONE}));
	cr_expect_not(proc_maps_has(m, &(struct proc_mapping){12, 21, 0, PROC_FILE_NONE}), "beyond its end");
	cr_expect_not(proc_maps_has(m, &(struct proc_mapping){9, 12, 0, PROC_FILE_NONE}), "before its start");
	cr_expect_not(proc_maps_has(m, &(struct proc_mapping){12, 20, 0, 1}), "another file");
	cr_expect(proc_maps_has(m, &(struct proc_mapping){42, 50, 9, 1}));
	cr_expect_not(proc_maps_has(m, &(struct proc_mapping){42, 50, 7, 1}), "another place in the file");
}

/*
 * A runtime's code in more pieces than are listed apart: the list is bounded, and all of the pieces and files
 * are found in it.
 */
Test(proc_maps, many_pieces)
{
	_cleanup_maps_ struct proc_maps *m = maps_new();
	const uint64_t n = 100000;

	insert(m, 0, 10, 0, 1);
	for (uint64_t i = 1; i <= n; i++)
		insert(m, i * 100, i * 100 + 10, 0, i == n / 2 ? 2 : PROC_FILE_NONE);
	insert(m, (n + 1) * 100, (n + 1) * 100 + 10, 0, 3);
	cr_expect_leq(m->n, PROC_MAPS_APART + 4, "%u entries", m->n);
	for (uint64_t i = 0; i <= n + 1; i++) {
		const struct proc_mapping *e = proc_maps_find(m, i * 100 + 5);
		uint32_t want = i == 0 ? 1 : i == n / 2 ? 2 : i > n ? 3 : PROC_FILE_NONE;

		cr_assert(e && e->file == want, "piece %lu", (unsigned long)i);
	}
}

/* ---- against a byte map */

#define SPACE 512u

struct cell {
	uint32_t file;
	uint64_t offset;
	bool mapped;
};

static void check_against(const struct proc_maps *m, const struct cell *cells)
{
	for (uint32_t i = 0; i < m->n; i++) {
		cr_assert_lt(proc_maps_at(m, i)->start, proc_maps_at(m, i)->end);
		cr_assert(i == 0 || proc_maps_at(m, i - 1)->end <= proc_maps_at(m, i)->start,
			  "ascending, not overlapping");
	}
	for (uint64_t a = 0; a < SPACE; a++) {
		const struct proc_mapping *e = proc_maps_find(m, a);

		cr_assert_eq(e != NULL, cells[a].mapped, "address %llu", (unsigned long long)a);
		if (!e)
			continue;
		cr_assert_eq(e->file, cells[a].file, "address %llu", (unsigned long long)a);
		cr_assert_eq(e->offset + (a - e->start), cells[a].offset, "address %llu",
			     (unsigned long long)a);
	}
}

Test(proc_maps, random)
{
	unsigned seed = 20260306;

	for (int round = 0; round < 40; round++) {
		_cleanup_maps_ struct proc_maps *m = maps_new();
		struct cell cells[SPACE] = {0};
		uint64_t longest = 1 + rand_r(&seed) % 120;

		for (uint32_t file = 1; file <= 60; file++) {
			uint64_t start = (uint64_t)rand_r(&seed) % SPACE,
				 len = 1 + (uint64_t)rand_r(&seed) % longest;
			uint64_t end = start + len < SPACE ? start + len : SPACE,
				 offset = (uint64_t)rand_r(&seed);

			insert(m, start, end, offset, file);
			for (uint64_t a = start; a < end; a++)
				cells[a] = (struct cell){file, offset + (a - start), true};
			check_against(m, cells);
		}
	}
}

/* ---- long lists */

#define LONG 20000u
#define STEP 0x4000ull

static void count_held(uint32_t file, void *data)
{
	(void)file;
	++*(size_t *)data;
}

static void ignore_file(uint32_t file, void *data)
{
	(void)file, (void)data;
}

/*
 * Every change of a long list begins with a copy for the history. Each entry that is written anew holds its
 * file, so the holds say what the changes cost: no change may cost as much as the list is long.
 */
Test(proc_maps, changes_of_a_long_list)
{
	const unsigned n_changes = 2000;
	struct proc_table *t;
	struct process *p;
	size_t n_held = 0, before;
	const struct proc_files files = {count_held, ignore_file, &n_held}; /* the table refers to it */

	cr_assert_eq(proc_table_new(&t, 10, &files), 0);
	p = add(t, 1, 1);
	for (uint64_t i = 0; i < LONG; i++)
		insert(p->maps, i * STEP, i * STEP + STEP / 2, i, 1);
	before = n_held;
	for (uint64_t i = 0; i < n_changes; i++) {
		uint64_t at = (i * 7919 % LONG) * STEP;

		cr_assert_eq(proc_history_add(p, i, 0), 0);
		cr_assert_eq(proc_maps_own(p), 0);
		insert(p->maps, at, at + STEP / 2, 0, 2 + (uint32_t)(i & 1));
		cr_assert_eq(proc_maps_find(p->maps, at)->file, 2 + (i & 1));
	}
	cr_expect_eq(p->maps->n, LONG);
	cr_expect_lt(n_held - before, n_changes * 600ul, "%zu entries written", n_held - before);
	cr_expect_geq(proc_history_at(p, n_changes - 10)->n, LONG, "some former versions are known");
	proc_table_free(t);
}

/* A long list against a plain array of what each place has, through copies that share parts of it. */
Test(proc_maps, long_list_and_its_copies)
{
	static uint32_t want[LONG], want_copy[LONG];
	_cleanup_maps_ struct proc_maps *m = maps_new(), *copy = NULL;
	unsigned seed = 20261122;

	for (uint32_t round = 1; round <= 20; round++) {
		proc_maps_unref(copy);
		cr_assert_eq(proc_maps_copy(&copy, m), 0);
		memcpy(want_copy, want, sizeof want);
		for (unsigned k = 0; k < 300; k++) {
			uint64_t from = (uint64_t)rand_r(&seed) % LONG, n = 1 + (uint64_t)rand_r(&seed) % 900;
			uint64_t end = from + n < LONG ? from + n : LONG;

			if (k % 3) /* many short ones */
				end = from + 1;
			insert(m, from * STEP, (end - 1) * STEP + STEP / 2, 0, round);
			for (uint64_t i = from; i < end; i++)
				want[i] = round;
		}
		insert(m, 0, STEP / 2, 0, PROC_FILE_OPENING | round);
		want[0] = round + 100;
		cr_expect(proc_maps_opened(m, PROC_FILE_OPENING | round, round + 100));
		for (uint32_t i = 0; i < LONG; i++) {
			const struct proc_mapping *e = proc_maps_find(m, i * STEP),
						  *old = proc_maps_find(copy, i * STEP);

			cr_assert_eq(e ? e->file : 0, want[i], "%u, round %u", i, round);
			cr_assert_eq(old ? old->file : 0, want_copy[i], "copy: %u, round %u", i, round);
		}
	}
}

/* A cursor and indices give the same entries, in order. */
Test(proc_maps, cursor)
{
	_cleanup_maps_ struct proc_maps *m = maps_new();
	struct proc_maps_cursor c = {.maps = m};
	const struct proc_mapping *e;
	uint32_t n = 0;

	cr_expect_null(proc_maps_next(&c));
	for (uint64_t i = 0; i < 1000; i++) /* from both ends */
		insert(m, (i % 2 ? 1000 - i : 1000 + i) * 16, (i % 2 ? 1000 - i : 1000 + i) * 16 + 8, 0, 1);
	c = (struct proc_maps_cursor){.maps = m};
	while ((e = proc_maps_next(&c)))
		cr_assert_eq(e, proc_maps_at(m, n++));
	cr_expect_eq(n, m->n);
	c = proc_maps_from(m, proc_maps_at(m, 500)->end - 1);
	cr_expect_eq(proc_maps_next(&c), proc_maps_at(m, 500));
	c = proc_maps_from(m, proc_maps_at(m, 500)->end);
	cr_expect_eq(proc_maps_next(&c), proc_maps_at(m, 501));
	c = proc_maps_from(m, UINT64_MAX);
	cr_expect_null(proc_maps_next(&c));
}

/* ---- sharing */

Test(proc_maps, sharing)
{
	_cleanup_table_ struct proc_table *t = table_new(10);
	struct process *parent = add(t, 1, 1), *child = add(t, 2, 2);
	uint64_t version;

	insert(parent->maps, 10, 20, 0, 1);
	version = parent->maps->version;
	proc_maps_unref(child->maps);
	child->maps = proc_maps_ref(parent->maps);

	cr_assert_eq(proc_maps_own(child), 0);
	cr_expect_neq(child->maps, parent->maps);
	cr_expect_neq(child->maps->id, parent->maps->id,
		      "what is published of the parent's is not the child's");
	insert(child->maps, 15, 17, 0, 2);
	cr_expect_eq(child->maps->n, 3);
	cr_expect_eq(parent->maps->n, 1);
	cr_expect_eq(parent->maps->version, version);
	cr_expect_eq(proc_maps_find(parent->maps, 16)->file, 1);

	struct proc_maps *before = child->maps;
	cr_assert_eq(proc_maps_own(child), 0);
	cr_expect_eq(child->maps, before, "private already");
}

Test(proc_maps, an_empty_list_of_its_own)
{
	_cleanup_table_ struct proc_table *t = table_new(10);
	struct process *parent = add(t, 1, 1), *child = add(t, 2, 2);

	proc_maps_unref(child->maps);
	child->maps = proc_maps_ref(parent->maps);
	cr_assert_eq(proc_maps_own(child), 0);
	insert(child->maps, 1, 2, 0, 1);
	cr_expect_eq(parent->maps->n, 0);
	cr_expect_eq(child->maps->n, 1);
}

#define OPENING(n) (PROC_FILE_OPENING | (n))

/* The file of a mapping becomes known after the mapping, when lists may share it. */
Test(proc_maps, opened)
{
	_cleanup_maps_ struct proc_maps *m = maps_new(), *copy = NULL, *other = maps_new();
	uint64_t version, version_of_copy;

	insert(m, 10, 20, 0, OPENING(7));
	insert(m, 20, 30, 0, OPENING(8));
	insert(m, 40, 50, 0, OPENING(7));
	cr_assert_eq(proc_maps_copy(&copy, m), 0);
	insert(other, 10, 20, 0, 2);
	version = m->version;
	version_of_copy = copy->version;
	cr_expect_not(proc_maps_opened(m, OPENING(9), 1));
	cr_expect_eq(m->version, version, "nothing has changed");
	cr_expect(proc_maps_opened(m, OPENING(7), 1));
	cr_expect_gt(m->version, version);
	cr_expect(proc_maps_opened(copy, OPENING(7), 1));
	cr_expect_gt(copy->version, version_of_copy);
	cr_expect_not(proc_maps_opened(other, OPENING(7), 1));
	for (uint32_t i = 0; i < 3; i++) {
		cr_expect_eq(proc_maps_at(m, i)->file, i == 1 ? OPENING(8) : 1);
		cr_expect_eq(proc_maps_at(copy, i)->file, i == 1 ? OPENING(8) : 1);
	}
	insert(m, 60, 70, 0, OPENING(7)); /* numbers come again after a long time */
	cr_expect(proc_maps_opened(m, OPENING(7), 3));
	cr_expect_eq(proc_maps_find(m, 60)->file, 3);
}

/* ---- lists count the files of their mappings */

struct counts {
	unsigned refs[8];
};

static void count_hold(uint32_t file, void *data)
{
	struct counts *c = data;

	c->refs[file & 7]++;
}

static void count_release(uint32_t file, void *data)
{
	struct counts *c = data;

	cr_assert_gt(c->refs[file & 7], 0);
	c->refs[file & 7]--;
}

Test(proc_maps, files_are_held)
{
	static struct counts c;
	const struct proc_files files = {count_hold, count_release, &c};
	struct proc_table *t;
	struct process *parent, *child;

	cr_assert_eq(proc_table_new(&t, 10, &files), 0);
	parent = add(t, 1, 1);
	cr_assert_eq(proc_maps_insert(parent->maps, (struct proc_mapping){0x1000, 0x9000, 0, 1}), 0);
	cr_expect_eq(c.refs[1], 1);
	cr_assert_eq(proc_maps_insert(parent->maps, (struct proc_mapping){0x3000, 0x4000, 0, OPENING(2)}), 0);
	cr_expect_eq(c.refs[1], 2, "cut in two");
	cr_expect_eq(c.refs[2], 1);
	child = add(t, 2, 2);
	proc_maps_unref(child->maps);
	child->maps = proc_maps_ref(parent->maps);
	cr_expect_eq(c.refs[1], 2, "a shared list has its references once");
	cr_assert_eq(proc_maps_own(child), 0);
	cr_expect_eq(c.refs[1], 2, "so have entries that lists share");
	cr_assert_eq(proc_history_add(child, 5, 0), 0);
	cr_assert_eq(proc_maps_own(child), 0);
	cr_assert_eq(proc_maps_insert(child->maps, (struct proc_mapping){0, 0x10000, 0, 3}), 0);
	cr_expect_eq(c.refs[1], 2, "the history has what was");
	cr_expect(proc_maps_opened(parent->maps, OPENING(2), 4));
	cr_expect_eq(c.refs[1], 2, "still shared");
	cr_expect_eq(c.refs[2], 0, "the history has the new one, too");
	cr_expect_eq(c.refs[4], 1);
	proc_history_forget(child, 6);
	cr_expect_eq(c.refs[1], 2);
	cr_expect_eq(c.refs[4], 1);
	proc_table_free(t);
	for (unsigned i = 0; i < ARRAY_SIZE(c.refs); i++)
		cr_expect_eq(c.refs[i], 0, "file %u", i);
}
