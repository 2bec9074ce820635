// SPDX-License-Identifier: Apache-2.0
/* Tables under their byte budget, and those of binaries that leave. */
#include <errno.h>

#include "agent/unwind/build.h"
#include "tests/unit/agent/unwind/world.h"

#define FIRST_FREE (SEGMENT_BYTES - PROCESS_TABLE_BYTES)

/* Bytes that a table of the C library takes in the arena. */
static size_t libc_table_bytes(void)
{
	_cleanup_world_ struct world w;

	world_init(&w, 1, 16);
	world_add_libc(&w, "a", 0);
	world_settle(&w);
	return world_used(&w);
}

/* A world with room for `n` tables of the C library and not one more. */
static void world_init_small(struct world *w, size_t n)
{
	size_t table = libc_table_bytes();
	struct arena_block rest;

	world_init(w, 1, 16);
	cr_assert_eq(arena_alloc(w->arena, FIRST_FREE - n * table - table / 2, NOBODY, &rest), 0);
}

Test(tables_limits, least_recently_used_goes)
{
	_cleanup_world_ struct world w;
	uint32_t a, b, c;
	size_t full;

	world_init_small(&w, 2);
	a = world_add_libc(&w, "a", 1);
	b = world_add_libc(&w, "b", 2);
	world_settle(&w);
	full = world_used(&w);
	unwind_tables_touch(w.tables, b, 100);
	unwind_tables_touch(w.tables, a, 200);
	c = world_add_libc(&w, "c", 3);
	world_settle(&w);
	cr_expect_eq(world_table(&w, a)->state, TABLE_READY);
	cr_expect_eq(world_table(&w, b)->state, TABLE_EVICTED);
	cr_expect_eq(world_table(&w, b)->n_placed, 0);
	cr_expect_eq(world_table(&w, c)->state, TABLE_READY);
	cr_expect_eq(world_stats(&w).evicted, 1);
	cr_expect_eq(world_stats(&w).ready, 2);
	cr_expect_eq(world_used(&w), full);

	/* a sample needs it again: it is built again, and another goes */
	unwind_tables_touch(w.tables, c, 300);
	unwind_tables_touch(w.tables, b, 400);
	cr_expect_eq(world_table(&w, b)->state, TABLE_WAITING);
	world_settle(&w);
	cr_expect_eq(world_table(&w, a)->state, TABLE_EVICTED);
	cr_expect_eq(world_table(&w, b)->state, TABLE_READY);
	cr_expect_eq(world_table(&w, c)->state, TABLE_READY);
	cr_expect_eq(world_used(&w), full);
}

struct withdrawn {
	const struct world *world;
	unsigned n;
	uint32_t binary;
	size_t retired_bytes; /* before the blocks of this one */
};

static void on_withdraw(uint32_t binary, void *data)
{
	struct withdrawn *w = data;
	struct arena_stats s;

	arena_stats(w->world->arena, &s);
	w->retired_bytes = s.retired_bytes;
	w->binary = binary;
	w->n++;
}

/* Evicted blocks are retired when they are out of every list, and reused after a grace period. */
Test(tables_limits, order_of_eviction)
{
	_cleanup_world_ struct world w;
	struct withdrawn withdrawn = {.world = &w};
	struct arena_stats s;
	uint32_t a, b;

	world_init_small(&w, 1);
	unwind_tables_set_withdraw(w.tables, on_withdraw, &withdrawn);
	a = world_add_libc(&w, "a", 1);
	world_settle(&w);
	b = world_add_libc(&w, "b", 2);
	unwind_tables_pump(w.tables);
	worker_drain(w.worker, WORLD_WAIT_NS);
	cr_expect_eq(world_table(&w, a)->state, TABLE_EVICTED);
	cr_expect_eq(world_table(&w, b)->state, TABLE_BUILDING, "built, waits for room");
	cr_expect_eq(w.n_ready, 0, "published lists lost the table, and need not be written again");
	cr_expect_eq(withdrawn.n, 1);
	cr_expect_eq(withdrawn.binary, a);
	cr_expect_leq(withdrawn.retired_bytes, libc_table_bytes() / 2, "not retired while lists name it");
	cr_expect_eq(unwind_tables_pending(w.tables), 1);
	arena_stats(w.arena, &s);
	cr_expect_geq(s.retired_bytes, libc_table_bytes());
	cr_expect(arena_grace_begin(w.arena));
	arena_grace_end(w.arena);
	unwind_tables_retry(w.tables);
	cr_expect_eq(world_table(&w, b)->state, TABLE_READY);
	cr_expect_eq(w.n_ready, 1);
	cr_expect_eq(unwind_tables_pending(w.tables), 0);
}

/* Tried again too early, the table goes on waiting: the room that was made is kept for it, whoever else needs
 * room. */
Test(tables_limits, room_is_kept)
{
	_cleanup_world_ struct world w;
	struct arena_block block;
	uint32_t b;

	world_init_small(&w, 1);
	world_add_libc(&w, "a", 1);
	world_settle(&w);
	b = world_add_libc(&w, "b", 2);
	unwind_tables_pump(w.tables);
	worker_drain(w.worker, WORLD_WAIT_NS);
	unwind_tables_retry(w.tables);
	cr_expect_eq(world_table(&w, b)->state, TABLE_BUILDING);
	cr_expect_eq(unwind_tables_pending(w.tables), 1);
	cr_expect(arena_grace_begin(w.arena));
	arena_grace_end(w.arena);
	cr_expect_eq(arena_alloc(w.arena, libc_table_bytes() * 2 / 3, NOBODY, &block), -ENOSPC);
	unwind_tables_retry(w.tables);
	cr_expect_eq(world_table(&w, b)->state, TABLE_READY);
	cr_expect_eq(unwind_tables_pending(w.tables), 0);
	unwind_tables_retry(w.tables); /* nothing waits */
}

static int find_loader(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	if (!strstr(info->dlpi_name, "/ld-"))
		return 0;
	*(const char **)data = info->dlpi_name;
	return 1;
}

/* A table that the whole budget cannot hold drives nothing out. */
Test(tables_limits, larger_than_the_budget)
{
	_cleanup_world_ struct world w;
	_cleanup_buf_ struct buf loader = {0};
	const char *path = NULL;
	uint32_t small, large;

	world_init_small(&w, 0);
	cr_assert(dl_iterate_phdr(find_loader, &path));
	cr_assert_eq(fs_read_file(path, 64u << 20, &loader), 0);
	world_write(&w, "loader", loader.data, loader.len);
	cr_assert_eq(world_add(&w, "loader", &small), 0);
	world_settle(&w);
	cr_assert_eq(world_table(&w, small)->state, TABLE_READY);
	large = world_add_libc(&w, "a", 1);
	world_settle(&w);
	cr_expect_eq(world_table(&w, large)->state, TABLE_EVICTED);
	cr_expect_eq(world_table(&w, small)->state, TABLE_READY);
	cr_expect_eq(world_stats(&w).evicted, 0);
	cr_expect_eq(world_stats(&w).ready, 1);
}

/* More files than fit, used in turn: the budget holds, and the last used has its table. */
Test(tables_limits, many_in_turn)
{
	enum { N = 8, ROUNDS = 3 };
	_cleanup_world_ struct world w;
	uint32_t files[N];
	size_t used;

	world_init_small(&w, 3);
	used = world_used(&w);
	for (uint8_t i = 0; i < N; i++) {
		char name[] = {(char)('a' + i), '\0'};

		files[i] = world_add_libc(&w, name, i + 1);
		world_settle(&w);
	}
	for (unsigned k = 0; k < N * ROUNDS; k++) {
		uint32_t index = files[k * 5 % N];

		unwind_tables_touch(w.tables, index, 1000 + k);
		world_settle(&w);
		cr_expect_eq(world_table(&w, index)->state, TABLE_READY, "round %u", k);
		cr_expect_leq(world_used(&w), FIRST_FREE);
		cr_expect_eq(world_stats(&w).table_bytes, world_used(&w) - used);
	}
	cr_expect_eq(world_stats(&w).ready, 3);
	cr_expect_geq(world_stats(&w).evicted, N);
}

/* A table that is merely mapped does not drive out one that samples use; it waits longer each time. */
Test(tables_limits, in_use)
{
	_cleanup_world_ struct world w;
	uint32_t used, mapped;

	world_init_small(&w, 1);
	used = world_add_libc(&w, "a", 1);
	world_settle(&w);
	unwind_tables_touch(w.tables, used, clock_mono_ns());
	mapped = world_add_libc(&w, "b", 2);
	world_settle(&w);
	cr_expect_eq(world_table(&w, used)->state, TABLE_READY);
	cr_expect_eq(world_table(&w, mapped)->state, TABLE_EVICTED);
	cr_expect_eq(world_stats(&w).evicted, 0);
	cr_expect_eq(world_stats(&w).no_room, 1);
	cr_expect_eq(world_stats(&w).no_room_file, mapped);
	unwind_tables_touch(w.tables, mapped, clock_mono_ns());
	cr_expect_eq(world_table(&w, mapped)->state, TABLE_EVICTED, "not at once again");
	unwind_tables_touch(w.tables, mapped, clock_mono_ns() + 11 * NS_PER_SEC);
	world_settle(&w);
	cr_expect_eq(world_table(&w, mapped)->state, TABLE_READY, "samples need it, too");
	cr_expect_eq(world_table(&w, used)->state, TABLE_EVICTED);
}

/* Lists have a share of their own: a table that made room for one does not wait. */
Test(tables_limits, evicted_for_a_list)
{
	_cleanup_world_ struct world w;
	struct arena_hold hold;
	uint32_t used;

	world_init_small(&w, 1);
	used = world_add_libc(&w, "a", 1);
	world_settle(&w);
	cr_assert_eq(unwind_tables_make_room(w.tables, libc_table_bytes(), &hold), 0);
	arena_unhold(w.arena, &hold);
	cr_assert_eq(world_table(&w, used)->state, TABLE_EVICTED);
	unwind_tables_touch(w.tables, used, clock_mono_ns() + 1);
	world_settle(&w);
	cr_expect_eq(world_table(&w, used)->state, TABLE_READY);
}

/* ---- binaries that leave */

/* The table of a binary that gives its place in the registry goes with it. */
Test(tables_limits, forgotten_with_the_binary)
{
	_cleanup_world_ struct world w;
	uint32_t first, second, third;
	size_t table;

	world_init(&w, 1, 2);
	first = world_add_libc(&w, "a", 1);
	world_settle(&w);
	table = world_used(&w);
	second = world_add_libc(&w, "b", 2);
	world_settle(&w);
	binary_registry_release(w.binaries, first);
	cr_expect_eq(world_table(&w, first)->state, TABLE_READY, "unreferenced, but nobody needs its place");
	third = world_add_libc(&w, "c", 3);
	cr_expect_eq(third, first, "the place is the one that was given up");
	cr_expect_eq(world_table(&w, third)->state, TABLE_WAITING, "the table was the other's");
	world_publish(&w);
	cr_expect_eq(world_used(&w), table, "its blocks went");
	cr_expect_eq(world_table(&w, second)->state, TABLE_READY);
	world_settle(&w);
	cr_expect_eq(world_table(&w, third)->state, TABLE_READY);
	cr_expect_eq(world_stats(&w).ready, 2);
	cr_expect_eq(unwind_tables_pending(w.tables), 0);
}

/* A binary at a worker stays until its job is done; one that waits may go, and is not waited for. */
Test(tables_limits, held_while_building)
{
	enum { N = UNWIND_JOBS_MAX + 2 };
	_cleanup_world_ struct world w;
	uint32_t files[N], more;

	world_init(&w, 1, N);
	for (uint8_t i = 0; i < N; i++) {
		char name[] = {(char)('a' + i), '\0'};

		files[i] = world_add_libc(&w, name, i + 1);
		binary_registry_get(w.binaries, files[i])->tenant = 1 + i / UNWIND_JOBS_OF_A_TENANT;
		unwind_tables_touch(w.tables, files[i], 1000);
	}
	unwind_tables_pump(w.tables);
	for (unsigned i = 0; i < N; i++)
		binary_registry_release(w.binaries, files[i]);
	cr_expect_eq(world_binaries(&w).unused, N - UNWIND_JOBS_MAX);
	more = world_add_libc(&w, "x", 100);
	more = world_add_libc(&w, "y", 101) == more ? 0 : more;
	cr_expect_neq(more, 0);
	cr_expect_eq(world_binaries(&w).evicted, 2);
	world_write_libc(&w, "z", 102);
	cr_expect_eq(world_add(&w, "z", &more), -ENFILE, "the others are at work");
	cr_expect_eq(unwind_tables_pending(w.tables), UNWIND_JOBS_MAX + 2);
	world_settle(&w);
	cr_expect_eq(world_stats(&w).ready, N);
	cr_expect_eq(world_binaries(&w).unused, UNWIND_JOBS_MAX, "the jobs gave their references back");
}

/* A table that failed while the binary had no descriptor is made when it has one again. */
Test(tables_limits, tried_again_when_reopened)
{
	_cleanup_world_ struct world w;
	uint32_t index;
	int fd;

	world_init(&w, 1, 2);
	index = world_add_libc(&w, "a", 1);
	fd = world_binary(&w, index)->fd;
	world_binary(&w, index)->fd = -1;
	world_settle(&w);
	cr_expect_eq(world_table(&w, index)->state, TABLE_FAILED);
	cr_expect(binary_registry_adopt(w.binaries, index, &fd));
	unwind_tables_reopened(w.tables, index);
	unwind_tables_reopened(w.tables, index); /* once is enough */
	world_settle(&w);
	cr_expect_eq(world_table(&w, index)->state, TABLE_READY);
}

/* What worker_check does with a job that has used too much CPU time. */
static void report_costly(struct world *w, uint32_t index)
{
	struct worker_job *job = &world_table(w, index)->job->job;

	job->costly = true;
	job->overdue(job);
}

/* Samples do not wait for it, its file system is not taken for dead, and it is used when it is there. */
Test(tables_limits, a_build_that_costs_too_much)
{
	_cleanup_world_ struct world w;
	uint32_t costly, other;

	world_init(&w, 1, 2);
	costly = world_add_libc(&w, "a", 1);
	unwind_tables_pump(w.tables);
	report_costly(&w, costly);
	cr_expect_eq(world_table(&w, costly)->state, TABLE_FAILED);
	cr_expect_eq(world_stats(&w).costly, 1);
	cr_expect_eq(world_stats(&w).costly_file, costly);
	cr_expect_eq(world_stats(&w).overdue, 0);
	other = world_add_libc(&w, "b", 2);
	world_settle(&w);
	cr_expect_eq(world_stats(&w).put_off, 0);
	cr_expect_eq(world_table(&w, other)->state, TABLE_READY);
	for (int i = 0; i < 1000 && world_table(&w, costly)->state != TABLE_READY; i++) {
		worker_drain(w.worker, 10 * NS_PER_MS);
		usleep(1000);
	}
	cr_expect_eq(world_table(&w, costly)->state, TABLE_READY);
}
