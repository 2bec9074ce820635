// SPDX-License-Identifier: Apache-2.0
/* Files of the cache: identity, order of work, limits, and the tables that come out. */
#include <errno.h>

#include "agent/elf/unwind_table.h"
#include "agent/unwind/pack.h"
#include "bpf/unwind.h"
#include "tests/unit/agent/unwind/world.h"

DEFINE_CLEANUP(struct elf_image *, elf_image_free)
DEFINE_CLEANUP(struct elf_rows *, elf_rows_free)

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

Test(tables, same_inode)
{
	_cleanup_world_ struct world w;
	uint32_t first, second = 0;
	struct stat st;
	int fd;

	world_init(&w, 1, 16);
	first = world_add_libc(&w, "a", 0);
	fd = world_open(&w, "a");
	cr_assert_eq(fstat(fd, &st), 0);
	cr_assert_eq(binary_registry_add(w.binaries, fd, &st, "/elsewhere", &second), 0);
	cr_expect_eq(first, second);
	cr_expect_not(is_open(fd), "the descriptor was taken");
	cr_expect(is_open(world_binary(&w, first)->fd));
	cr_expect_str_eq(world_binary(&w, first)->module.path, world_path(&w, "a"));
	cr_expect_str_eq(world_binary(&w, first)->module.name, "a");
	cr_expect_eq(world_binaries(&w).known, 1);
}

/* An inode whose content was replaced is another file. */
Test(tables, same_inode_other_time)
{
	_cleanup_world_ struct world w;
	uint32_t first, second = 0;
	struct stat st;
	int fd;

	world_init(&w, 1, 16);
	world_write(&w, "a", "#!/bin/sh\n", 10);
	cr_assert_eq(world_add(&w, "a", &first), 0);
	fd = world_open(&w, "a");
	cr_assert_eq(fstat(fd, &st), 0);
	st.st_mtim.tv_nsec ^= 1;
	cr_assert_eq(binary_registry_add(w.binaries, fd, &st, "a", &second), 0);
	cr_expect_neq(first, second);
}

Test(tables, same_build_id)
{
	_cleanup_world_ struct world w;
	uint32_t first, copy, other, again;

	world_init(&w, 1, 16);
	first = world_add_libc(&w, "a", 0);
	copy = world_add_libc(&w, "b", 0);
	other = world_add_libc(&w, "c", 1);
	cr_expect_eq(copy, first);
	cr_expect_neq(other, first);
	cr_assert_eq(world_add(&w, "b", &again), 0);
	cr_expect_eq(again, first, "the copy's inode is known now");
	cr_expect_eq(world_binaries(&w).known, 2);
	cr_expect_eq(strlen(world_binary(&w, first)->module.build_id_gnu), 40);
	cr_expect_str_neq(world_binary(&w, first)->module.build_id_gnu,
			  world_binary(&w, other)->module.build_id_gnu);
}

Test(tables, indices)
{
	_cleanup_world_ struct world w;

	world_init(&w, 1, 16);
	cr_expect_null(unwind_tables_get(w.tables, 0));
	cr_expect_null(unwind_tables_get(w.tables, 1));
	cr_expect_null(unwind_tables_get(w.tables, 17));
	cr_expect_null(unwind_tables_get(w.tables, FILE_ANONYMOUS));
	unwind_tables_touch(w.tables, 5, 1); /* a frame of a file that is no more */
	cr_expect_eq(world_add_libc(&w, "a", 0), 1);
	cr_expect_eq(world_binary(&w, 1)->module.id, 1);
}

Test(tables, no_more_files)
{
	_cleanup_world_ struct world w;
	uint32_t index = 99;
	struct stat st;
	int fd;

	world_init(&w, 1, 2);
	world_add_libc(&w, "a", 0);
	world_add_libc(&w, "b", 1);
	world_write_libc(&w, "c", 2);
	fd = world_open(&w, "c");
	cr_assert_eq(fstat(fd, &st), 0);
	cr_expect_eq(binary_registry_add(w.binaries, fd, &st, "c", &index), -ENFILE);
	cr_expect_eq(index, 99);
	cr_expect_not(is_open(fd));
	cr_expect_eq(world_binaries(&w).full, 1);
	cr_expect_eq(world_binaries(&w).known, 2);
}

/* What is mapped executable and no ELF file has no table; its addresses are offsets. */
Test(tables, not_elf)
{
	static const struct {
		const char *name, *bytes;
		size_t len;
	} cases[] = {{"empty", "", 0},
		     {"text", "hello\n", 6},
		     {"magic", "\177ELF", 4},
		     {"head", "\177ELF\2\1\1\0", 8}};
	_cleanup_world_ struct world w;

	world_init(&w, 1, 16);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint32_t index;

		world_write(&w, cases[i].name, cases[i].bytes, cases[i].len);
		cr_assert_eq(world_add(&w, cases[i].name, &index), 0);
		world_settle(&w);
		cr_expect_eq(world_table(&w, index)->state, TABLE_NONE, "%s", cases[i].name);
		cr_expect_eq(world_binary(&w, index)->n_segments, 0);
		cr_expect_eq(world_binary(&w, index)->module.limit, cases[i].len);
	}
	cr_expect_eq(world_stats(&w).failed, 0);
}

/* The module spans the executable segments; the file offset is that of its start. */
Test(tables, module_range)
{
	_cleanup_world_ struct world w;
	const struct binary_table *f;

	world_init(&w, 1, 16);
	f = world_table(&w, world_add_libc(&w, "a", 0));
	cr_assert_geq(f->binary->n_segments, 2);
	for (size_t i = 0; i < f->binary->n_segments; i++) {
		const struct elf_segment *s = &f->binary->segments[i];

		if (!s->executable)
			continue;
		cr_expect(f->binary->module.start <= s->va &&
			  f->binary->module.limit >= s->va + s->mem_bytes);
		if (f->binary->module.start == s->va)
			cr_expect_eq(f->binary->module.file_offset, s->offset);
	}
}

/* A frame in a file without a table puts it before all that merely wait. */
Test(tables, samples_first)
{
	enum { N = UNWIND_JOBS_MAX + 6 };
	_cleanup_world_ struct world w;
	uint32_t files[N];
	unsigned waiting = 0;

	world_init(&w, 2, N);
	for (uint8_t i = 0; i < N; i++) {
		char name[] = {(char)('a' + i), '\0'};

		files[i] = world_add_libc(&w, name, i + 1);
	}
	cr_expect_eq(unwind_tables_pending(w.tables), N);
	unwind_tables_touch(w.tables, files[N - 1], 1000);
	unwind_tables_pump(w.tables);
	cr_expect_eq(world_table(&w, files[N - 1])->state, TABLE_BUILDING);
	for (int i = 0; i < N; i++)
		waiting += world_table(&w, files[i])->state == TABLE_WAITING;
	cr_expect_eq(waiting, N - UNWIND_JOBS_MAX, "%u wait: what is not at a worker can still change places",
		     waiting);
	cr_expect_eq(unwind_tables_pending(w.tables), N);
	world_settle(&w);
	for (int i = 0; i < N; i++)
		cr_expect_eq(world_table(&w, files[i])->state, TABLE_READY);
	cr_expect_eq(world_stats(&w).ready, N);
	cr_expect_eq(world_stats(&w).built, N);
}

/* The rule that the placed table has for an address. */
static struct unwind_rule placed_rule(const struct world *w, const struct unwind_placed *p, uint64_t va)
{
	struct segment *s = w->segments[ref_segment(p->block.ref)];
	uint32_t at = ref_offset(p->block.ref);
	const struct unwind_table *t = (const struct unwind_table *)(s->bytes + at);
	const struct unwind_state state = {
		.index = t->index, .rows = t->rows, .rules = at + (uint32_t)sizeof *t};
	uint64_t bits = table_rule(s, &state, va - t->va);
	struct unwind_rule rule;

	memcpy(&rule, &bits, sizeof rule);
	return rule;
}

/* What lies in the arena is the file's table. */
Test(tables, table_in_the_arena)
{
	_cleanup_(elf_image_free_p) struct elf_image *img = NULL;
	_cleanup_(elf_rows_free_p) struct elf_rows *rows = NULL;
	_cleanup_world_ struct world w;
	const struct binary_table *f;
	size_t wrong = 0, found = 0;

	world_init(&w, 1, 16);
	f = world_table(&w, world_add_libc(&w, "a", 0));
	world_settle(&w);
	cr_assert_eq(f->state, TABLE_READY);
	cr_expect_eq(strlen(f->binary->module.htlhash), 32);
	cr_assert_eq(elf_image_open(&img, f->binary->fd), 0);
	cr_assert_eq(elf_rows_build(&rows, img), 0);
	cr_expect_eq(f->n_rows, rows->n_rows);
	for (size_t i = 0; i + 1 < rows->n_rows; i++) {
		struct unwind_rule want = unwind_rule_pack(&rows->rules[rows->rows[i].rule],
							   elf_image_machine(img)),
				   got;

		for (size_t k = 0; k < f->n_placed; k++) {
			if (rows->rows[i].va < f->placed[k].va || rows->rows[i].va >= f->placed[k].end)
				continue;
			got = placed_rule(&w, &f->placed[k], rows->rows[i].va);
			wrong += memcmp(&got, &want, sizeof got) != 0;
			found++;
		}
	}
	cr_expect_eq(wrong, 0, "%zu rows differ", wrong);
	cr_expect_geq(found * 10, rows->n_rows * 9, "%zu of %zu rows are in blocks", found, rows->n_rows);
	cr_expect_eq(world_stats(&w).table_bytes, world_used(&w));
	cr_expect_eq(world_stats(&w).rows, rows->n_rows);
}

/* Stopped in the middle of the work: nothing leaks, nothing is touched afterwards. */
Test(tables, stop_at_work)
{
	_cleanup_world_ struct world w;

	world_init(&w, 1, 16);
	for (uint8_t i = 0; i < 6; i++) {
		char name[] = {(char)('a' + i), '\0'};

		world_add_libc(&w, name, i + 1);
	}
	unwind_tables_pump(w.tables);
}
