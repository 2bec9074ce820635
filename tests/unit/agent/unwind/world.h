// SPDX-License-Identifier: Apache-2.0
/* Binaries and their tables, with the arena in plain memory, real workers, and copies of the C library to
 * fill it with. */
#ifndef PROFLET_TESTS_UNWIND_WORLD_H
#define PROFLET_TESTS_UNWIND_WORLD_H

#include <criterion/criterion.h>
#include <fcntl.h>
#include <ftw.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/fs.h"
#include "agent/base/worker.h"
#include "agent/unwind/arena.h"
#include "agent/unwind/tables.h"
#include "bpf/abi.h"

#define WORLD_SEGMENTS 4
#define WORLD_WAIT_NS (60 * NS_PER_SEC)
#define NOBODY ((struct arena_owner){ARENA_LIST, 0}) /* owns what is never evicted */

struct world {
	void *segments[WORLD_SEGMENTS];
	struct arena *arena;
	struct worker *worker;
	struct binary_registry *binaries;
	struct unwind_tables *tables;
	struct buf libc;
	char dir[32];
	unsigned n_ready; /* calls of the cache's callback since the last publication */
};

static inline int world_segment(void *data, uint32_t index, void **ret)
{
	struct world *w = data;

	cr_assert_lt(index, WORLD_SEGMENTS);
	w->segments[index] = calloc(1, SEGMENT_VALUE);
	cr_assert_not_null(w->segments[index]);
	*ret = w->segments[index];
	return 0;
}

static inline void world_ready(void *data)
{
	struct world *w = data;

	w->n_ready++;
}

static inline void world_forget(uint32_t index, void *data)
{
	const struct world *w = data;

	unwind_tables_forget(w->tables, index);
}

static inline int world_find_libc(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	if (!strstr(info->dlpi_name, "libc.so"))
		return 0;
	*(const char **)data = info->dlpi_name;
	return 1;
}

static inline void world_init(struct world *w, unsigned n_segments, uint32_t max_files)
{
	const char *libc = NULL;

	*w = (struct world){.dir = "/tmp/proflet-test-XXXXXX"};
	cr_assert_not_null(mkdtemp(w->dir));
	cr_assert(dl_iterate_phdr(world_find_libc, &libc));
	cr_assert_eq(fs_read_file(libc, 64u << 20, &w->libc), 0);
	cr_assert_eq(arena_new(&w->arena, n_segments * SEGMENT_BYTES, world_segment, w), 0);
	cr_assert_eq(worker_new(&w->worker, 2, 64, "test"), 0);
	cr_assert_eq(binary_registry_new(&w->binaries, max_files, NULL), 0);
	binary_registry_on_forget(w->binaries, world_forget, w);
	cr_assert_eq(unwind_tables_new(&w->tables, w->binaries, w->arena, w->worker, world_ready, w), 0);
}

static inline int world_remove(const char *path, const struct stat *st, int flag, struct FTW *at)
{
	(void)st, (void)flag, (void)at;
	return remove(path);
}

static inline void world_fini(struct world *w)
{
	worker_free(w->worker);
	unwind_tables_free(w->tables);
	binary_registry_free(w->binaries);
	arena_free(w->arena);
	for (int i = 0; i < WORLD_SEGMENTS; i++)
		free(w->segments[i]);
	buf_fini(&w->libc);
	cr_expect_eq(nftw(w->dir, world_remove, 8, FTW_DEPTH | FTW_PHYS), 0);
}

#define _cleanup_world_ _cleanup_(world_fini)

static inline const char *world_path(const struct world *w, const char *name)
{
	static char path[128];

	snprintf(path, sizeof path, "%s/%s", w->dir, name);
	return path;
}

/* Writes a file with these bytes. */
static inline void world_write(const struct world *w, const char *name, const void *bytes, size_t len)
{
	cr_assert_eq(fs_write_file(world_path(w, name), bytes, len), 0);
}

/* Writes a copy of the C library whose build id differs by `id` from the real one (0: not at all). */
static inline void world_write_libc(struct world *w, const char *name, uint8_t id)
{
	static const uint8_t note[] = {4, 0, 0, 0, 20, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0};
	uint8_t *at = memmem(w->libc.data, w->libc.len, note, sizeof note);

	cr_assert_not_null(at, "libc has a build id");
	at[sizeof note] ^= id;
	world_write(w, name, w->libc.data, w->libc.len);
	at[sizeof note] ^= id;
}

static inline int world_open(const struct world *w, const char *name)
{
	int fd = open(world_path(w, name), O_RDONLY | O_CLOEXEC);

	cr_assert_geq(fd, 0);
	return fd;
}

/* Adds the file, holds it, and lets it have a table; the return value is binary_registry_add's. */
static inline int world_add(struct world *w, const char *name, uint32_t *ret)
{
	int fd = world_open(w, name);
	struct stat st;
	int r;

	cr_assert_eq(fstat(fd, &st), 0);
	r = binary_registry_add(w->binaries, fd, &st, world_path(w, name), ret);
	if (r < 0)
		return r;
	cr_assert(binary_registry_hold(w->binaries, *ret));
	unwind_tables_add(w->tables, *ret);
	return 0;
}

/* A new copy of the C library, added. Its index. */
static inline uint32_t world_add_libc(struct world *w, const char *name, uint8_t id)
{
	uint32_t index = 0;

	world_write_libc(w, name, id);
	cr_assert_eq(world_add(w, name, &index), 0);
	return index;
}

/* What follows a call of `ready`: publication, and a grace period. */
static inline void world_publish(struct world *w)
{
	w->n_ready = 0;
	if (arena_grace_begin(w->arena))
		arena_grace_end(w->arena);
	unwind_tables_retry(w->tables);
}

/* Works until no file waits. */
static inline void world_settle(struct world *w)
{
	for (int i = 0; i < 1000 && (unwind_tables_pending(w->tables) || w->n_ready); i++) {
		unwind_tables_pump(w->tables);
		worker_drain(w->worker, WORLD_WAIT_NS);
		world_publish(w);
	}
	cr_assert_eq(unwind_tables_pending(w->tables), 0);
}

static inline struct binary *world_binary(const struct world *w, uint32_t index)
{
	struct binary *b = binary_registry_get(w->binaries, index);

	cr_assert_not_null(b, "binary %u", index);
	return b;
}

static inline struct binary_table *world_table(const struct world *w, uint32_t index)
{
	struct binary_table *f = unwind_tables_get(w->tables, index);

	cr_assert_not_null(f, "table %u", index);
	return f;
}

static inline struct binary_stats world_binaries(const struct world *w)
{
	struct binary_stats s;

	binary_registry_stats(w->binaries, &s);
	return s;
}

static inline struct unwind_tables_stats world_stats(const struct world *w)
{
	struct unwind_tables_stats s;

	unwind_tables_stats(w->tables, &s);
	return s;
}

static inline size_t world_used(const struct world *w)
{
	struct arena_stats s;

	arena_stats(w->arena, &s);
	return s.used_bytes;
}

#endif
