// SPDX-License-Identifier: Apache-2.0
/* A registry, and a folder of files to fill it with. */
#ifndef PROFLET_TESTS_BINARY_FILES_H
#define PROFLET_TESTS_BINARY_FILES_H

#include <criterion/criterion.h>
#include <fcntl.h>
#include <ftw.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/fs.h"
#include "agent/binary/binary_set.h"
#include "agent/binary/registry.h"

struct files {
	struct binary_registry *registry;
	char dir[32];
	uint32_t forgotten[16];
	unsigned n_forgotten;
};

static inline void files_on_forget(uint32_t index, void *data)
{
	struct files *f = data;

	cr_assert_lt(f->n_forgotten, ARRAY_SIZE(f->forgotten));
	cr_expect_not_null(binary_registry_get(f->registry, index), "still there");
	f->forgotten[f->n_forgotten++] = index;
}

static inline void files_init(struct files *f, uint32_t max)
{
	*f = (struct files){.dir = "/tmp/proflet-test-XXXXXX"};
	cr_assert_not_null(mkdtemp(f->dir));
	cr_assert_eq(binary_registry_new(&f->registry, max, NULL), 0);
	binary_registry_on_forget(f->registry, files_on_forget, f);
}

static inline int files_remove(const char *path, const struct stat *st, int flag, struct FTW *at)
{
	(void)st, (void)flag, (void)at;
	return remove(path);
}

static inline void files_fini(struct files *f)
{
	binary_registry_free(f->registry);
	cr_expect_eq(nftw(f->dir, files_remove, 8, FTW_DEPTH | FTW_PHYS), 0);
}

#define _cleanup_files_ _cleanup_(files_fini)

static inline const char *files_path(const struct files *f, const char *name)
{
	static char path[128];

	snprintf(path, sizeof path, "%s/%s", f->dir, name);
	return path;
}

static inline int files_find_libc(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	if (!strstr(info->dlpi_name, "libc.so"))
		return 0;
	*(const char **)data = info->dlpi_name;
	return 1;
}

/* Writes a copy of the C library; `changed`: with one byte changed. */
static inline void files_write_libc(const struct files *f, const char *name, bool changed)
{
	_cleanup_buf_ struct buf libc = {0};
	const char *path = NULL;

	cr_assert(dl_iterate_phdr(files_find_libc, &path));
	cr_assert_eq(fs_read_file(path, 64u << 20, &libc), 0);
	libc.data[libc.len / 2] ^= changed;
	cr_assert_eq(fs_write_file(files_path(f, name), libc.data, libc.len), 0);
}

/* Opens the file, as the registry is given it. */
static inline int files_open(const struct files *f, const char *name, struct stat *st)
{
	int fd = open(files_path(f, name), O_PATH | O_CLOEXEC);

	cr_assert_geq(fd, 0);
	cr_assert_eq(fstat(fd, st), 0);
	return fd;
}

/* Adds the file; binary_registry_add's result. */
static inline int files_try(struct files *f, const char *name, uint32_t *ret)
{
	struct stat st;
	int fd = files_open(f, name, &st);

	return binary_registry_add(f->registry, fd, &st, files_path(f, name), ret);
}

static inline uint32_t files_add(struct files *f, const char *name)
{
	uint32_t index = 0;

	cr_assert_eq(files_try(f, name, &index), 0, "%s", name);
	return index;
}

/* A small file with that name, added. */
static inline uint32_t files_add_text(struct files *f, const char *name)
{
	cr_assert_eq(fs_write_file(files_path(f, name), name, strlen(name)), 0);
	return files_add(f, name);
}

static inline struct binary *files_get(const struct files *f, uint32_t index)
{
	struct binary *b = binary_registry_get(f->registry, index);

	cr_assert_not_null(b, "binary %u", index);
	return b;
}

static inline struct binary_stats files_stats(const struct files *f)
{
	struct binary_stats s;

	binary_registry_stats(f->registry, &s);
	return s;
}

static inline bool files_always(uint32_t index, void *data)
{
	(void)index, (void)data;
	return true;
}

#endif
